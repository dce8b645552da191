// Opens a split of a data set as a Source.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "bridle/data.h"
#include "bridle/error.h"
#include "data/cifar.h"
#include "data/image_source.h"
#include "data/token_files.h"
#include "data/token_source.h"
#include "data/vector_source.h"

namespace bridle {
namespace {

struct Range {
  int64_t begin;
  int64_t end;
};

// The part of `size` examples or tokens that a split of the training files takes.
Range part_of(int64_t size, Split split, double held_out) {
  if (!(held_out >= 0.0 && held_out < 1.0))
    throw InputError("data", fmt::format("held_out must be at least 0 and below 1, got {}", held_out));
  const int64_t border = size - std::llround(std::floor(static_cast<double>(size) * held_out));
  if (split == Split::validation) return {0, size};
  return split == Split::train ? Range{0, border} : Range{border, size};
}

// Of the validation files those that come from one source, where one is asked for.
std::vector<DataFile> files_of(const DataSet& data, Split split, const std::string& source) {
  const std::vector<DataFile>& files = split == Split::validation ? data.validation : data.train;
  if (source.empty()) return files;
  std::vector<DataFile> found;
  if (split == Split::validation)
    std::ranges::copy_if(files, std::back_inserter(found),
                         [&](const DataFile& file) { return file.source == source; });
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const TextSource& known : data.sources) names.push_back(known.name);
  throw InputError("data",
                   names.empty() || split != Split::validation
                       ? fmt::format("'{}' has no {} files of one source alone, got source {}", data.name,
                                     word(split), source)
                       : fmt::format("source must be one of {}, got {}", fmt::join(names, ", "), source));
}

}  // namespace

std::shared_ptr<const Source> open_split(const DataSet& data, Split split, const SourceOptions& options) {
  if (data.kind == DataKind::tokenizer)
    throw InputError("data", fmt::format("'{}' is a tokenizer; there is nothing to train on", data.name));
  const std::vector<DataFile> files = files_of(data, split, options.source);
  if (files.empty())
    throw InputError("data", fmt::format("'{}' has no {} files", data.name,
                                         split == Split::validation ? "validation" : "training"));
  if (data.kind == DataKind::tokens) {
    auto tokens =
        std::make_shared<TokenFiles>(files, data.raw ? TokenFormat::raw : TokenFormat::shard, data.outputs);
    const Range part = part_of(tokens->size(), split, options.held_out);
    return std::make_shared<TokenSource>(std::move(tokens), part.begin, part.end, options.sequence_length);
  }
  if (data.kind == DataKind::vectors) {
    if (options.standardize || options.random_labels != 0.0)
      throw InputError(
          "data",
          "data.standardize must be false and data.random_labels 0 for imported vectors, which the "
          "import has standardised already");
    auto rows = std::make_shared<VectorFile>(files.front(), *data.vectors, data.outputs);
    const Range part = part_of(rows->size(), split, options.held_out);
    return std::make_shared<VectorSource>(std::move(rows), part.begin, part.end);
  }
  auto images = std::make_shared<ImageFiles>(files);
  const Range part = part_of(images->size(), split, options.held_out);
  ImageSourceOptions image_options{.begin = part.begin, .end = part.end, .seed = options.seed};
  if (split == Split::train) image_options.random_labels = options.random_labels;
  if (options.standardize) image_options.standardize = channel_statistics(ImageFiles(data.train));
  return std::make_shared<ImageSource>(std::move(images), image_options);
}

}  // namespace bridle
