#include "data/token_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/token_files.h"

namespace bridle {

TokenWriter::TokenWriter(std::filesystem::path folder, std::string name, int64_t shard_tokens)
    : folder_(std::move(folder)), name_(std::move(name)), shard_tokens_(shard_tokens) {
  open();
}

void TokenWriter::open() {
  files_.push_back({.path = folder_ / fmt::format("{}_{:06}.bin", name_, files_.size())});
  shard_ = std::make_unique<OutputFile>(files_.back().path);
  shard_->write(std::string(kShardHeader, '\0'));
}

void TokenWriter::write(std::span<const Token> tokens) {
  while (!tokens.empty()) {
    if (files_.back().count == shard_tokens_) {
      finish();
      open();
    }
    const int64_t room = shard_tokens_ - files_.back().count;
    const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(room)));
    shard_->write(std::as_bytes(part));
    files_.back().count += static_cast<int64_t>(part.size());
    tokens = tokens.subspan(part.size());
  }
}

void TokenWriter::finish() {
  const std::array<int32_t, 3> header{kShardMagic, kShardVersion, static_cast<int32_t>(files_.back().count)};
  shard_->write_at(0, std::as_bytes(std::span(header)));
  shard_->close();
}

std::vector<DataFile> TokenWriter::close() {
  finish();
  return std::move(files_);
}

}  // namespace bridle
