#include "io/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/crc32c.h"
#include "base/files.h"
#include "bridle/error.h"
#include "io/tensorboard.pb.h"

namespace bridle {
namespace {

constexpr int kString = 7;  // DT_STRING
constexpr int kStart = 1;   // SessionLog::START
constexpr size_t kBuckets = 30;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw InputError("write", fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

events::Event event_at(int64_t step) {
  events::Event event;
  event.set_wall_time(now());
  event.set_step(step);
  return event;
}

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  return bytes;
}

// Names in a folder in the order of their time, each used once.
std::string new_name() {
  static std::atomic<int> count = 0;
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(now()), host, getpid(),
                     count++);
}

// Equal buckets from the smallest to the largest.
void fill(events::HistogramProto& histogram, const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double width = *high > *low ? (*high - *low) / kBuckets : 1.0;
  std::vector<double> counts(*high > *low ? kBuckets : 1);
  double sum = 0.0, squares = 0.0;
  for (const double value : values) {
    const auto bucket = static_cast<size_t>(std::ceil((value - *low) / width));
    counts[std::clamp<size_t>(bucket, 1, counts.size()) - 1] += 1.0;
    sum += value;
    squares += value * value;
  }
  histogram.set_min(*low);
  histogram.set_max(*high);
  histogram.set_num(static_cast<double>(values.size()));
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (size_t i = 0; i < counts.size(); ++i) {
    histogram.add_bucket_limit(i + 1 == counts.size() ? *high : *low + width * static_cast<double>(i + 1));
    histogram.add_bucket(counts[i]);
  }
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder) : path_(folder / new_name()) {
  make_folder(folder);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_);
  events::Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  record(version.SerializeAsString());
}

EventFile::~EventFile() { ::close(descriptor_); }

void EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& by_tag) {
  events::Event event = event_at(step);
  for (const auto& [tag, number] : by_tag) {
    events::Summary::Value* value = event.mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(static_cast<float>(number));
  }
  record(event.SerializeAsString());
}

void EventFile::histogram(int64_t step, const std::string& tag, const std::vector<double>& values) {
  if (values.empty()) return;
  events::Event event = event_at(step);
  events::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  fill(*value->mutable_histo(), values);
  record(event.SerializeAsString());
}

void EventFile::text(int64_t step, const std::string& tag, const std::string& text) {
  events::Event event = event_at(step);
  events::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(kString);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val(text);
  record(event.SerializeAsString());
}

void EventFile::restart(int64_t step) {
  events::Event event = event_at(step);
  event.mutable_session_log()->set_status(kStart);
  record(event.SerializeAsString());
}

void EventFile::sync() { ::fdatasync(descriptor_); }

// In one write, so that readers see whole records.
void EventFile::record(const std::string& message) {
  const std::string length = little_endian(static_cast<uint64_t>(message.size()));
  const std::string whole =
      length + little_endian(masked_crc32c(length)) + message + little_endian(masked_crc32c(message));
  const ssize_t written = ::write(descriptor_, whole.data(), whole.size());
  if (written == static_cast<ssize_t>(whole.size())) return;
  if (written >= 0) errno = ENOSPC;
  fail(path_);
}

}  // namespace bridle
