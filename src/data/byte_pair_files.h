// GPT-2's vocabulary on the disk. `vocab.json` maps tokens to ids, `merges.txt` lists which two tokens make a third, by
// rank, after a line "#version: …". Both write a byte as one printable character: itself where it is printable Latin-1,
// else the next of U+0100, U+0101, …; OpenAI named the files `encoder.json` and `vocab.bpe`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bridle/tokenizer.h"

namespace bridle {

struct Merge {
  Token left, right, result;
};

// Every token but <|endoftext|> is one byte or the result of exactly one merge, whose parts are bytes or results of
// merges of lower rank.
struct BytePairs {
  std::vector<std::string> tokens;  // the bytes of each id
  std::array<Token, 256> bytes{};   // the id of each byte
  std::vector<Merge> merges;        // by rank
};

// Throws InputError where the files are not whole or do not keep what BytePairs promises.
BytePairs read_byte_pairs(const std::filesystem::path& folder);

// What is left with the first `count` merges: the bytes, their results and <|endoftext|>, with ids in the order that they
// had. Throws InputError where there are fewer merges.
BytePairs first_merges(const BytePairs& pairs, int64_t count);

// The id of <|endoftext|>, where the vocabulary has it.
std::optional<Token> end_of_text(const BytePairs& pairs);

void write_byte_pairs(const BytePairs& pairs, const std::filesystem::path& folder);

}  // namespace bridle
