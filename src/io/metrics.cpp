#include "io/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw InputError("write", fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

// What is not finite is written as null.
Json json_of(const MetricRecord& record) {
  struct Value {
    Json operator()(int64_t value) const { return value; }
    Json operator()(double value) const { return value; }
    Json operator()(const Metric::PerWeight& values) const {
      Json all = Json::object();
      for (const auto& [name, value] : values) all[name] = value;
      return all;
    }
  };
  Json line{{"step", record.step}};
  for (const Metric& metric : record.metrics) line[metric.name] = std::visit(Value{}, metric.value);
  return line;
}

}  // namespace

JsonLines::JsonLines(std::filesystem::path path, int64_t bytes) : path_(std::move(path)), size_(bytes) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_);
  if (::lseek(descriptor_, 0, SEEK_END) < bytes) {
    ::close(descriptor_);
    throw InputError(
        "metrics",
        fmt::format("{} is shorter than when the checkpoint was written; resume a copy with all its files",
                    path_.string()));
  }
  if (::ftruncate(descriptor_, bytes) != 0 || ::lseek(descriptor_, bytes, SEEK_SET) != bytes) fail(path_);
}

JsonLines::~JsonLines() { ::close(descriptor_); }

void JsonLines::write(const MetricRecord& record) {
  const std::string whole = json_of(record).dump() + "\n";
  const ssize_t written = ::write(descriptor_, whole.data(), whole.size());
  if (written != static_cast<ssize_t>(whole.size())) {
    if (written >= 0) errno = ENOSPC;
    fail(path_);
  }
  size_ += written;
}

void JsonLines::sync() { ::fdatasync(descriptor_); }

}  // namespace bridle
