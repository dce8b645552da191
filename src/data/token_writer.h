// Writes tokens as shards NAME_000000.bin, NAME_000001.bin … of a given length.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "bridle/data.h"

namespace bridle {

class TokenWriter {
 public:
  TokenWriter(std::filesystem::path folder, std::string name, int64_t shard_tokens);

  void write(std::span<const Token> tokens);
  std::vector<DataFile> close();  // what was written; at least one file

 private:
  void open();
  void finish();  // the shard at hand: its count into the header, and to the disk
  std::filesystem::path folder_;
  std::string name_;
  int64_t shard_tokens_;
  std::unique_ptr<OutputFile> shard_;
  std::vector<DataFile> files_;
};

}  // namespace bridle
