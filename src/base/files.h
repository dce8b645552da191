// Files that are either whole or not there. Every failed call becomes an InputError with the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace bridle {

// A file's bytes, mapped and shared with the page cache: larger than memory is fine.
class MappedFile {
 public:
  enum class Access { sequential, random };
  explicit MappedFile(std::filesystem::path path, Access access = Access::sequential);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// A regular file that is opened once and read from its beginning to its end. Opening never waits: a FIFO or a device is
// refused.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }  // when it was opened
  void read(std::span<std::byte> out);     // the next bytes; throws where the file has become shorter
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// A file being written, through a buffer. `close` syncs it to the disk; without it the destructor only lets go.
class OutputFile {
 public:
  enum class Mode { replace, append };
  explicit OutputFile(std::filesystem::path path, Mode mode = Mode::replace);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(size_t offset, std::span<const std::byte> bytes);  // over what is there, for headers
  void close();

 private:
  void flush();
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string buffer_;
};

// The whole file, as a copy that nobody else can change. Throws InputError for more than `largest` bytes, unread.
std::string read_file(const std::filesystem::path& path,
                      uint64_t largest = std::numeric_limits<uint64_t>::max());

// Writes beside the path, syncs, renames: afterwards the path holds the old contents or the new ones, never a part.
void write_file(const std::filesystem::path& path, std::string_view contents);
void write_file(const std::filesystem::path& path, const std::function<void(OutputFile&)>& fill);

void make_folder(const std::filesystem::path& path);

// Renames a finished folder (or file) to its place and syncs the parent. Where `to` exists, the two change places in one
// step and the old one is removed.
void publish(const std::filesystem::path& from, const std::filesystem::path& to);

// Holds an exclusive lock on a file while it lives; waits for whoever has it, and says so before.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait = {});
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace bridle
