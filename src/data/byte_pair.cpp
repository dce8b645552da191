// GPT-2's tokenizer: text → pretokens → bytes → merged pairs. Most words of ordinary text are one token and found
// whole; the rest is merged afresh each time, which is quick enough to need no cache. Nothing changes after loading.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "bridle/error.h"
#include "data/byte_pair_files.h"
#include "data/merger.h"
#include "data/pretokens.h"
#include "data/utf8.h"
#include "data/word_table.h"

namespace bridle {
namespace {

// The tokens whose own bytes merge into them; a merge of lower rank can stand in the way of that.
std::vector<Token> whole_words(const BytePairs& pairs, const Merger& merger) {
  std::vector<Token> ids, encoded;
  const auto add = [&](Token id) {
    encoded.clear();
    merger.encode(pairs.tokens[id], encoded);
    if (encoded == std::vector{id}) ids.push_back(id);
  };
  for (const Token id : pairs.bytes) add(id);
  for (const Merge& merge : pairs.merges) add(merge.result);
  return ids;
}

class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairs pairs)
      : pairs_(std::move(pairs)), merger_(pairs_), words_(pairs_.tokens, whole_words(pairs_, merger_)) {}

  const char* name() const override { return "gpt2"; }
  int64_t size() const override { return static_cast<int64_t>(pairs_.tokens.size()); }

  std::optional<Token> document_token() const override { return end_of_text(pairs_); }

  void encode(std::string_view text, std::vector<Token>& out) const override {
    check_utf8("encode", text);
    for (size_t start = 0; start < text.size();) {
      const size_t end = pretoken_end(text, start);
      const std::string_view piece = text.substr(start, end - start);
      if (const auto whole = words_.find(piece)) {
        out.push_back(*whole);
      } else {
        merger_.encode(piece, out);
      }
      start = end;
    }
  }

  std::string decode(std::span<const Token> tokens) const override {
    std::string text;
    for (const Token token : tokens) {
      if (token >= pairs_.tokens.size()) {
        throw InputError("decode",
                         fmt::format("token {}; the vocabulary's ids end at {}", token, size() - 1));
      }
      text += pairs_.tokens[token];
    }
    return text;
  }

  size_t cut(std::string_view text) const override { return last_safe_cut(text); }
  void save(const std::filesystem::path& folder) const override { write_byte_pairs(pairs_, folder); }

 private:
  BytePairs pairs_;
  Merger merger_;
  WordTable words_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_byte_pair_tokenizer(const std::filesystem::path& folder,
                                                    std::optional<int64_t> merges) {
  BytePairs pairs = read_byte_pairs(folder);
  return std::make_unique<BytePairTokenizer>(merges ? first_merges(pairs, *merges) : std::move(pairs));
}

}  // namespace bridle
