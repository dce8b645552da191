#include "data/tokenizer_choice.h"

#include <fmt/format.h>

#include "bridle/error.h"

namespace bridle {

std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerChoice& choice, const Listener& listener) {
  if (choice.name == "characters") {
    if (choice.merges)
      throw InputError("tokenizer", "characters are not merged; use --tokenizer gpt2 with --merges");
    return nullptr;
  }
  if (choice.name == "gpt2")
    return load_byte_pair_tokenizer(get_data("gpt2", listener).folder, choice.merges);
  if (std::filesystem::is_directory(choice.name)) return load_byte_pair_tokenizer(choice.name, choice.merges);
  throw InputError(
      "tokenizer",
      fmt::format("tokenizer '{}' is none of characters, gpt2, or a folder with GPT-2's files", choice.name));
}

}  // namespace bridle
