// Small byte-pair vocabularies, random strings of troublesome characters, and the merging of the original in its own
// words, slow and plain.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_pair_files.h"

namespace bridle::test {

using Parts = std::vector<std::pair<std::string, std::string>>;

// The 256 bytes, the merges' results and <|endoftext|>, with ids in this order, or shuffled by a seed.
inline BytePairs make_byte_pairs(const Parts& parts, unsigned seed = 0) {
  std::vector<Token> ids(257 + parts.size());
  std::iota(ids.begin(), ids.end(), Token{0});
  if (seed != 0) std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
  BytePairs pairs;
  pairs.tokens.resize(ids.size());
  std::map<std::string, Token> by_bytes;
  const auto add = [&](const std::string& bytes) {
    const Token id = ids[by_bytes.size()];
    pairs.tokens[id] = bytes;
    return by_bytes[bytes] = id;
  };
  for (size_t byte = 0; byte < 256; ++byte) pairs.bytes[byte] = add(std::string(1, static_cast<char>(byte)));
  for (const auto& [left, right] : parts) {
    pairs.merges.push_back({by_bytes.at(left), by_bytes.at(right), add(left + right)});
  }
  add("<|endoftext|>");
  return pairs;
}

// Merges among the letters of `alphabet` that could come from any text.
inline Parts random_parts(const std::string& alphabet, size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> tokens;
  for (const char letter : alphabet) tokens.emplace_back(1, letter);
  Parts parts;
  while (parts.size() < count) {
    const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
    if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
    parts.emplace_back(left, right);
    tokens.push_back(left + right);
  }
  return parts;
}

// As OpenAI's encoder.py: merge all of the lowest-ranked pair from left to right, until there is none.
inline std::vector<Token> merge_plainly(const BytePairs& pairs, const std::string& piece) {
  std::vector<Token> word;
  for (const char byte : piece) word.push_back(pairs.bytes[static_cast<unsigned char>(byte)]);
  for (size_t rank = 0; rank < pairs.merges.size();) {
    const Merge& merge = pairs.merges[rank];
    std::vector<Token> merged;
    for (size_t i = 0; i < word.size(); ++i) {
      const bool here = i + 1 < word.size() && word[i] == merge.left && word[i + 1] == merge.right;
      merged.push_back(here ? merge.result : word[i]);
      if (here) ++i;
    }
    rank = merged.size() < word.size()
               ? 0
               : rank + 1;  // from the lowest rank again after every pass that did something
    word = std::move(merged);
  }
  return word;
}

// Letters, digits, marks, spaces of one to three bytes, apostrophes before letters of contractions, emoji.
inline std::string random_text(std::mt19937& random, size_t characters) {
  static const std::vector<std::string> alphabet = {
      "a",      "s",      "t",      "l",      "L",      "r", "e",  "v",  "d",      "é",   "д",
      "字",     "1",      "٣",      "½",      "'",      "'", "'l", "'r", "!",      "-",   "™",
      "\u0301", "\u0085", "\u200B", "\u00A0", "\u3000", " ", " ",  "\n", "\uFEFF", "🙂"};
  std::string text;
  for (size_t i = 0; i < characters; ++i) text += alphabet[random() % alphabet.size()];
  return text;
}

}  // namespace bridle::test
