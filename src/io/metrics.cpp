#include "io/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw InputError("write", fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, int64_t bytes) : path_(std::move(path)), size_(bytes) {
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

MetricsFile::~MetricsFile() { ::close(descriptor_); }

void MetricsFile::append(const std::string& line) {
  const std::string whole = line + "\n";
  const ssize_t written = ::write(descriptor_, whole.data(), whole.size());
  if (written != static_cast<ssize_t>(whole.size())) {
    if (written >= 0) errno = ENOSPC;
    fail(path_);
  }
  size_ += written;
}

void MetricsFile::sync() { ::fdatasync(descriptor_); }

}  // namespace bridle
