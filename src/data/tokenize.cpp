#include "data/tokenize.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "bridle/error.h"
#include "data/token_writer.h"
#include "data/utf8.h"

namespace bridle {
namespace {

constexpr size_t kChunk = size_t{1} << 22;

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// The byte where the first nine tenths of the characters end; int(0.9·n) of them, as the paper and nanoGPT split.
size_t training_bytes(std::string_view text) {
  const auto characters =
      static_cast<int64_t>(text.size()) - std::count_if(text.begin(), text.end(), continues);
  int64_t left = characters * 9 / 10;
  size_t at = 0;
  while (at < text.size() && (left > 0 || continues(text[at]))) {
    if (!continues(text[at])) --left;
    ++at;
  }
  return at;
}

// The part of `text` to encode next: about a chunk, ending where the encoding of the rest does not depend on it.
size_t next_piece(const Tokenizer& tokenizer, std::string_view text) {
  for (size_t size = kChunk;; size *= 2) {
    if (size >= text.size()) return text.size();
    size_t end = size;
    while (end > 0 && continues(text[end])) --end;
    if (const size_t cut = tokenizer.cut(text.substr(0, end)); cut > 0) return cut;
  }
}

struct Part {
  const char* name;
  std::string_view text;
};

std::vector<DataFile> write_part(const Part& part, const Tokenizer& tokenizer, TokenWriter writer,
                                 const OnProgress& progress) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < part.text.size();) {
    const size_t size = next_piece(tokenizer, part.text.substr(at));
    tokens.clear();
    tokenizer.encode(part.text.substr(at, size), tokens);
    writer.write(tokens);
    at += size;
    report(progress, {.what = fmt::format("encoding {}", part.name),
                      .done = static_cast<int64_t>(at),
                      .total = static_cast<int64_t>(part.text.size()),
                      .unit = "bytes"});
  }
  return writer.close();
}

}  // namespace

DataSet tokenize_text(const TokenizeOptions& options, const std::filesystem::path& folder,
                      const OnProgress& progress) {
  const MappedFile file(options.text);
  const std::string_view text = file.text();
  check_utf8(fmt::format("text {}", options.text.string()).c_str(), text);
  const size_t border = training_bytes(text);
  if (border == 0 || border == text.size())
    throw InputError("text", fmt::format("{}: {} bytes are too few to train on and validate with",
                                         options.text.string(), text.size()));
  try {
    std::unique_ptr<Tokenizer> own;
    if (options.tokenizer == nullptr) own = make_character_tokenizer(text);
    const Tokenizer& tokenizer = own ? *own : *options.tokenizer;
    tokenizer.save(folder);
    const auto write = [&](const Part& part) {
      return write_part(part, tokenizer, TokenWriter(folder, part.name, options.shard_tokens), progress);
    };
    return {.kind = DataKind::tokens,
            .outputs = tokenizer.size(),
            .train = write({"train", text.substr(0, border)}),
            .validation = write({"validation", text.substr(border)})};
  } catch (const InputError& error) {
    throw InputError("text", fmt::format("{}: {}", options.text.string(), error.what()));
  }
}

}  // namespace bridle
