// Tokenizer: text ↔ token ids. Two kinds: characters (one id a Unicode code point of the training text) and GPT-2's
// byte-pair encoding. Stored as in Hugging Face's layout: `vocab.json` (token → id), and `merges.txt` for byte pairs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bridle {

using Token = uint16_t;  // what token files hold

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual const char* name() const = 0;  // "characters" or "gpt2"
  virtual int64_t size() const = 0;      // ids are in [0, size)

  // The token that stands before every document: GPT-2's <|endoftext|>, which no text is encoded as. Characters have none.
  virtual std::optional<Token> document_token() const { return std::nullopt; }

  // Appends the ids of `text` to `out`. Throws InputError, naming the byte, where the text is not UTF-8, and where
  // the vocabulary does not have a character.
  virtual void encode(std::string_view text, std::vector<Token>& out) const = 0;

  // The bytes of the tokens, put together; of byte pairs they need not be whole UTF-8 characters.
  virtual std::string decode(std::span<const Token> tokens) const = 0;

  // The length of a prefix of `text` that may be encoded for itself, whatever follows `text`: encoding the prefix and
  // then the rest gives the same ids as encoding both at once. 0 where there is none yet.
  virtual size_t cut(std::string_view text) const = 0;

  // Writes vocab.json (and merges.txt) into the folder.
  virtual void save(const std::filesystem::path& folder) const = 0;

  std::vector<Token> encode(std::string_view text) const;
};

// A vocabulary of the code points of `text`, in their order. Throws InputError at the first byte that is not UTF-8.
std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text);

// Reads GPT-2's files: vocab.json and merges.txt, or encoder.json and vocab.bpe as OpenAI named them. With `merges`, the
// tokenizer of the first so many merges alone: its vocabulary is the 256 bytes, their results and the document token.
std::unique_ptr<Tokenizer> load_byte_pair_tokenizer(const std::filesystem::path& folder,
                                                    std::optional<int64_t> merges = std::nullopt);

// Either kind, from a folder that `save` has written.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

}  // namespace bridle
