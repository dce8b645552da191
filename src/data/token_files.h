// Token files: FineWeb's, modded-nanogpt's and llm.c's shards (256 int32: 20240520, 1, count; then uint16 tokens) and
// nanoGPT's raw uint16 files. Several files are one stream; they are mapped, so they may be larger than memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "bridle/data.h"

namespace bridle {

enum class TokenFormat { shard, raw };

constexpr int32_t kShardMagic = 20240520;
constexpr int32_t kShardVersion = 1;
constexpr size_t kShardHeader = 256 * sizeof(int32_t);

// Checks a file's header and size and gives the number of its tokens. Throws InputError.
int64_t count_tokens(const std::filesystem::path& path, TokenFormat format);

// The files that a pattern names, sorted; at least one. A path without wildcards names itself.
std::vector<std::filesystem::path> matching_files(const std::string& pattern);

class TokenFiles {
 public:
  // Files whose count differs from what they hold are refused.
  TokenFiles(const std::vector<DataFile>& files, TokenFormat format, int64_t vocabulary_size);

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  // Tokens position … position + out.size() − 1, across files. Throws InputError at an id beyond the vocabulary.
  void read(int64_t position, std::span<int64_t> out) const;

  void check_ids() const;  // reads all of it

 private:
  void copy(size_t file, int64_t offset, std::span<int64_t> out) const;
  std::vector<MappedFile> files_;
  std::vector<int64_t> ends_;  // of each file in the stream
  size_t header_;
  int64_t vocabulary_size_;
};

}  // namespace bridle
