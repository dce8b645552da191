#include "data/token_source.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bridle/error.h"

namespace bridle {
namespace {

// A tensor that owns the numbers.
at::Tensor adopt(std::vector<int64_t> values, at::IntArrayRef shape) {
  auto owner = std::make_shared<std::vector<int64_t>>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) {}, at::TensorOptions().dtype(at::kLong));
}

}  // namespace

TokenSource::TokenSource(std::shared_ptr<const TokenFiles> files, int64_t begin, int64_t end,
                         int64_t sequence_length)
    : files_(std::move(files)), begin_(begin), end_(end), sequence_length_(sequence_length) {
  if (sequence_length < 1)
    throw InputError("data", fmt::format("sequence_length must be at least 1, got {}", sequence_length));
  if (size() < 1) {
    throw InputError(
        "data",
        fmt::format("sequence_length = {} needs {} tokens and this part of the data has {}; take shorter "
                    "sequences or more data",
                    sequence_length, sequence_length + 1, end - begin));
  }
}

Batch TokenSource::windows(std::span<const int64_t> starts, int64_t length) const {
  const auto rows = static_cast<int64_t>(starts.size());
  const auto row_size = static_cast<size_t>(length);
  std::vector<int64_t> window(row_size + 1);
  std::vector<int64_t> inputs;
  std::vector<int64_t> targets;
  inputs.reserve(starts.size() * row_size);
  targets.reserve(starts.size() * row_size);
  for (const int64_t start : starts) {
    files_->read(begin_ + start, window);
    inputs.insert(inputs.end(), window.begin(), window.end() - 1);
    targets.insert(targets.end(), window.begin() + 1, window.end());
  }
  return {adopt(std::move(inputs), {rows, length}), adopt(std::move(targets), {rows, length})};
}

std::optional<Batch> TokenSource::remainder() const {
  const int64_t targets = end_ - begin_ - 1;
  const int64_t length = targets % sequence_length_;
  if (length == 0) return std::nullopt;
  const int64_t start = targets - length;
  return windows({&start, 1}, length);
}

}  // namespace bridle
