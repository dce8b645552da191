// One id a Unicode code point, in the order of the code points.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/files.h"
#include "bridle/error.h"
#include "data/characters.h"
#include "data/utf8.h"

namespace bridle {
namespace {

constexpr size_t kLargestVocabulary = 65536;  // ids are uint16
constexpr char32_t kCodePoints = 0x110000;

class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)) {
    for (size_t id = 0; id < characters_.size(); ++id) ids_[characters_[id]] = static_cast<Token>(id);
  }

  const char* name() const override { return "characters"; }
  int64_t size() const override { return std::ssize(characters_); }

  void encode(std::string_view text, std::vector<Token>& out) const override {
    check_utf8("characters", text);
    for (size_t at = 0; at < text.size();) {
      const CodePoint character = decode_utf8(text, at);
      const auto found = ids_.find(character.value);
      if (found == ids_.end()) {
        throw InputError("characters",
                         fmt::format("'{}' (U+{:04X}) at byte {} is not in the vocabulary of {} characters",
                                     text.substr(at, character.length),
                                     static_cast<uint32_t>(character.value), at, size()));
      }
      out.push_back(found->second);
      at += character.length;
    }
  }

  std::string decode(std::span<const Token> tokens) const override {
    std::string text;
    for (const Token token : tokens) {
      if (token >= size())
        throw InputError("characters", fmt::format("id {} is beyond the vocabulary of {}", token, size()));
      append_utf8(characters_[token], text);
    }
    return text;
  }

  size_t cut(std::string_view text) const override { return text.size(); }

  void save(const std::filesystem::path& folder) const override {
    nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
    for (size_t id = 0; id < characters_.size(); ++id) {
      std::string character;
      append_utf8(characters_[id], character);
      vocabulary[character] = id;
    }
    write_file(folder / "vocab.json", vocabulary.dump(1) + "\n");
  }

 private:
  std::vector<char32_t> characters_;
  std::unordered_map<char32_t, Token> ids_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text) {
  std::vector<bool> seen(kCodePoints);
  check_utf8("characters", text);
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = decode_utf8(text, at);
    seen[character.value] = true;
    at += character.length;
  }
  std::vector<char32_t> characters;
  for (char32_t character = 0; character < kCodePoints; ++character) {
    if (seen[character]) characters.push_back(character);
  }
  if (characters.empty())
    throw InputError("characters", "the text is empty; there is nothing to make a vocabulary of");
  if (characters.size() > kLargestVocabulary) {
    throw InputError(
        "characters",
        fmt::format("the text has {} different characters and ids end at {}; use --tokenizer gpt2",
                    characters.size(), kLargestVocabulary));
  }
  return std::make_unique<CharacterTokenizer>(std::move(characters));
}

std::unique_ptr<Tokenizer> load_character_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "vocab.json";
  const auto refuse = [&path](const std::string& what) {
    return InputError("tokenizer", fmt::format("{}: {}", path.string(), what));
  };
  const auto vocabulary = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!vocabulary.is_object() || vocabulary.empty() || vocabulary.size() > kLargestVocabulary)
    throw refuse("not a JSON object of characters and their ids");
  std::vector<char32_t> characters(vocabulary.size(), kCodePoints);
  for (const auto& [text, id] : vocabulary.items()) {
    const CodePoint character = text.empty() ? CodePoint{} : decode_utf8(text, 0);
    if (character.length == 0 || character.length != text.size())
      throw refuse(fmt::format("'{}' is not one character", text));
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= characters.size() ||
        characters[id.get<size_t>()] != kCodePoints)
      throw refuse(
          fmt::format("'{}' has id {}; ids are 0 … {}, each once", text, id.dump(), characters.size() - 1));
    characters[id.get<size_t>()] = character.value;
  }
  return std::make_unique<CharacterTokenizer>(std::move(characters));
}

}  // namespace bridle
