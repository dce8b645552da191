// Small data sets for tests.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "base/files.h"
#include "bridle/data.h"
#include "data/token_files.h"
#include "data/token_writer.h"
#include "file_support.h"

namespace bridle::test {

// 0, 1, 2 … modulo `limit`.
inline std::vector<Token> counting(size_t count, int limit = 65536) {
  std::vector<Token> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(static_cast<int>(i) % limit);
  return tokens;
}

inline std::vector<DataFile> write_shards(const std::filesystem::path& folder,
                                          const std::vector<Token>& tokens, int64_t shard_tokens = 1000000) {
  TokenWriter writer(folder, "train", shard_tokens);
  writer.write(tokens);
  return writer.close();
}

// While it lives, $BRIDLE_DATA is an empty folder.
class TemporaryData {
 public:
  TemporaryData() {
    if (const char* value = std::getenv("BRIDLE_DATA")) before_ = value;
    ::setenv("BRIDLE_DATA", (folder_ / "data").c_str(), 1);
  }
  ~TemporaryData() {
    if (before_.empty())
      ::unsetenv("BRIDLE_DATA");
    else
      ::setenv("BRIDLE_DATA", before_.c_str(), 1);
  }
  TemporaryData(const TemporaryData&) = delete;
  TemporaryData& operator=(const TemporaryData&) = delete;
  std::filesystem::path operator/(const std::filesystem::path& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
  std::string before_;
};

}  // namespace bridle::test
