#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bridle/error.h"
#include "bridle/loader.h"

namespace bridle {

const char* word(Protocol protocol) {
  switch (protocol) {
    case Protocol::whole:
      return "whole";
    case Protocol::paper:
      return "paper";
  }
  return nullptr;
}

Evaluation::Evaluation(std::shared_ptr<const Source> source, const EvaluationOptions& options)
    : source_(std::move(source)), options_(options) {
  if (options.batch_size < 1)
    throw InputError("evaluation", fmt::format("batch_size must be at least 1, got {}", options.batch_size));
  const bool whole = options.protocol == Protocol::whole;
  examples_ = whole ? (source_->size() - 1) / source_->stride() + 1
                    : std::min(source_->size(), options.batch_size * options.iterations);
  if (options.targets < 0)
    throw InputError("evaluation", fmt::format("targets = {}; it must be at least 0", options.targets));
  const int64_t wanted = (options.targets + source_->stride() - 1) / source_->stride();
  const bool cut = whole && options.targets > 0 && wanted < examples_;
  if (cut) examples_ = wanted;
  if (examples_ < 1)
    throw InputError("evaluation", fmt::format("iterations must be at least 1, got {}", options.iterations));
  batches_ = (examples_ + options.batch_size - 1) / options.batch_size;
  if (whole && !cut && source_->remainder()) ++batches_;
}

Batch Evaluation::operator[](int64_t index) const {
  if (index < 0 || index >= batches_)
    throw InputError("evaluation", fmt::format("batch {} of {}; they count from 0", index, batches_));
  const int64_t first = index * options_.batch_size;
  if (first >= examples_) return source_->remainder().value();
  const int64_t step = options_.protocol == Protocol::whole ? source_->stride() : 1;
  std::vector<int64_t> starts;
  for (int64_t i = first; i < std::min(examples_, first + options_.batch_size); ++i)
    starts.push_back(i * step);
  return source_->read(starts);
}

}  // namespace bridle
