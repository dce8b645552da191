#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

[[noreturn]] void fail(const char* operation, const std::filesystem::path& path, int error) {
  const char* hint = "";
  if (error == ENOSPC || error == EDQUOT) hint = "; make room there, or choose another place";
  if (error == EACCES || error == EROFS || error == EPERM) hint = "; choose a place that you may write to";
  if (std::string_view(operation) != "write" && error == EACCES) hint = "; check its permissions";
  throw InputError(operation, fmt::format("{}: {}{}", path.string(), std::strerror(error), hint));
}

int open_or_fail(const char* operation, const std::filesystem::path& path, int flags) {
  int descriptor = -1;
  do descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) fail(operation, path, errno);
  return descriptor;
}

// Without waiting for whoever may write into a FIFO. Gives the size as well.
int open_regular(const std::filesystem::path& path, uint64_t& size) {
  const int descriptor = open_or_fail("read", path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw InputError("read", fmt::format("{} is not a regular file", path.string()));
  }
  size = static_cast<uint64_t>(status.st_size);
  return descriptor;
}

void write_all(int descriptor, const std::filesystem::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path, errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open_or_fail("write", folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  ::fsync(descriptor);  // some file systems have nothing to sync here and say EINVAL
  ::close(descriptor);
}

std::filesystem::path beside(const std::filesystem::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.new", path.filename().string(), ::getpid());
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, Access access) : path_(std::move(path)) {
  const int descriptor = open_regular(path_, size_);
  if (size_ > 0) {
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(descriptor);
      fail("read", path_, error);
    }
    ::madvise(data, size_, access == Access::random ? MADV_RANDOM : MADV_SEQUENTIAL);
    data_ = static_cast<const std::byte*>(data);
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);  // NOLINT: munmap takes no const
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

std::string_view MappedFile::text() const { return {reinterpret_cast<const char*>(data_), size_}; }

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open_regular(path_, size_);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::read(descriptor_, out.data(), out.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_, errno);
    if (got == 0)
      throw InputError("read", fmt::format("{} became shorter while it was read; is somebody writing it?",
                                           path_.string()));
    out = out.subspan(static_cast<size_t>(got));
  }
}

// Not O_APPEND: with it, Linux lets pwrite append too.
OutputFile::OutputFile(std::filesystem::path path, Mode mode)
    : path_(std::move(path)),
      descriptor_(open_or_fail("write", path_, O_WRONLY | O_CREAT | (mode == Mode::replace ? O_TRUNC : 0))) {
  if (mode == Mode::append) ::lseek(descriptor_, 0, SEEK_END);  // what cannot be sought has only an end
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::write(std::string_view text) {
  if (buffer_.size() + text.size() > kBuffer) flush();
  if (text.size() <= kBuffer) {
    buffer_.append(text);
    return;
  }
  write_all(descriptor_, path_, text);
}

void OutputFile::flush() {
  write_all(descriptor_, path_, buffer_);
  buffer_.clear();
}

void OutputFile::write_at(size_t offset, std::span<const std::byte> bytes) {
  flush();
  if (::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(bytes.size()))
    fail("write", path_, errno);
}

void OutputFile::close() {
  flush();
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("write", path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("write", path_, errno);
}

std::string read_file(const std::filesystem::path& path, uint64_t largest) {
  InputFile file(path);
  if (file.size() > largest)
    throw InputError(
        "read", fmt::format("{} must have at most {} bytes, got {}", path.string(), largest, file.size()));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  return text;
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, [contents](OutputFile& file) { file.write(contents); });
}

void write_file(const std::filesystem::path& path, const std::function<void(OutputFile&)>& fill) {
  const std::filesystem::path temporary = beside(path);
  try {
    OutputFile file(temporary);
    fill(file);
    file.close();
    publish(temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("write", path, error.value());
}

void publish(const std::filesystem::path& from, const std::filesystem::path& to) {
  const bool exchange = std::filesystem::is_directory(from) && std::filesystem::exists(to);
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), exchange ? RENAME_EXCHANGE : 0);
  if (result != 0 && exchange &&
      (errno == EINVAL || errno == ENOSYS)) {  // network file systems have no exchange
    const std::filesystem::path aside = beside(to);
    result = ::rename(to.c_str(), aside.c_str());
    if (result == 0) result = ::rename(from.c_str(), to.c_str());
    if (result == 0) std::filesystem::remove_all(aside);
  }
  if (result != 0) fail("write", to, errno);
  sync_folder(to.parent_path());
  if (exchange) std::filesystem::remove_all(from);
}

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait)
    : descriptor_(open_or_fail("write", path, O_RDWR | O_CREAT)) {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  try {
    if (on_wait) on_wait();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  while (::flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(descriptor_);
    fail("write", path, error);
  }
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace bridle
