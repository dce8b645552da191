// Packages become a data set of tokens: documents cleaned, duplicates dropped, split by document, written as shards with the
// document token before every document. Training documents of all sources are mixed; validation has files of its own for
// each source. All of it depends on the documents' text alone.
#pragma once

#include <filesystem>
#include <vector>

#include "bridle/data.h"
#include "data/prose/packages.h"

namespace bridle {

struct CorpusOptions {
  size_t shortest = 200;           // documents of fewer bytes are dropped
  uint64_t validation_share = 20;  // one document in so many is for validation
  int64_t shard_tokens = 100'000'000;
};

// Throws InputError where a package is damaged or gives no documents, and where the tokenizer has no document token.
DataSet build_corpus(const std::vector<FetchedPackage>& packages, const Tokenizer& tokenizer,
                     const std::filesystem::path& folder, const CorpusOptions& options = {},
                     const OnProgress& on_progress = {});

}  // namespace bridle
