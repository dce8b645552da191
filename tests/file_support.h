// What tests of files and errors need.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The call throws this kind of error, and its message holds this part.
#define EXPECT_ERROR(call, kind, part)                                                  \
  try {                                                                                 \
    call;                                                                               \
    ADD_FAILURE() << #call << " did not throw " << #kind;                               \
  } catch (const kind& error) {                                                         \
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what(); \
  }

namespace bridle::test {

// An empty folder that goes with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  operator const std::filesystem::path&() const { return path_; }  // NOLINT: it stands for its path
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> entries(const std::filesystem::path& folder);  // names, sorted

// While it lives, the environment's variable has this value.
class EnvironmentVariable {
 public:
  EnvironmentVariable(std::string name, const std::string& value);
  ~EnvironmentVariable();
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

std::filesystem::path golden_file(const std::string& name);  // of tests/golden/

// While it lives, writing a file past this many bytes fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes);
  ~FileSizeLimit();
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  struct rlimit before_ {};
};

}  // namespace bridle::test
