// A text file becomes a data set of tokens: the first nine tenths of its characters for training, the rest for validation.
#pragma once

#include <filesystem>

#include "bridle/data.h"

namespace bridle {

struct TokenizeOptions {
  std::filesystem::path text;
  const Tokenizer* tokenizer = nullptr;  // null: characters, with the text's own vocabulary
  int64_t shard_tokens = 100'000'000;
};

// Writes shards and the tokenizer's files into the folder.
DataSet tokenize_text(const TokenizeOptions& options, const std::filesystem::path& folder,
                      const OnProgress& progress);

}  // namespace bridle
