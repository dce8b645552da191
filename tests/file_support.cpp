// See file_support.h.
#include "file_support.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace bridle::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "bridle_test_XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> entries(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

EnvironmentVariable::EnvironmentVariable(std::string name, const std::string& value)
    : name_(std::move(name)) {
  if (const char* before = std::getenv(name_.c_str())) before_ = before;
  setenv(name_.c_str(), value.c_str(), 1);
}

EnvironmentVariable::~EnvironmentVariable() {
  if (before_)
    setenv(name_.c_str(), before_->c_str(), 1);
  else
    unsetenv(name_.c_str());
}

std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(BRIDLE_GOLDEN_FOLDER) / name;
}

FileSizeLimit::FileSizeLimit(size_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);  // without it the process ends instead of seeing EFBIG
  getrlimit(RLIMIT_FSIZE, &before_);
  const struct rlimit limit { bytes, before_.rlim_max };
  setrlimit(RLIMIT_FSIZE, &limit);
}

FileSizeLimit::~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

}  // namespace bridle::test
