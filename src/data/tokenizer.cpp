#include "bridle/tokenizer.h"

#include "data/characters.h"

namespace bridle {

std::vector<Token> Tokenizer::encode(std::string_view text) const {
  std::vector<Token> tokens;
  encode(text, tokens);
  return tokens;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  const bool byte_pairs =
      std::filesystem::exists(folder / "merges.txt") || std::filesystem::exists(folder / "vocab.bpe");
  return byte_pairs ? load_byte_pair_tokenizer(folder) : load_character_tokenizer(folder);
}

}  // namespace bridle
