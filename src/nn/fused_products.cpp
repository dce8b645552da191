// See fused_products.h.
#include "nn/fused_products.h"

#include <algorithm>

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;
constexpr int64_t kMostPartRows = 256;    // of a product that a member takes at once
constexpr int64_t kLeastPartRows = 64;    // as many as a kernel reads a block of weights for
constexpr int64_t kChunkBytes = 1 << 20;  // of packed weights, read again for every part: half of an L2 cache
constexpr int64_t kParts = 8;  // of a product, at least, where its rows allow: members end together

}  // namespace

FusedProducts::FusedProducts(const StepKernels& kernels, Team team, int64_t most_left_columns)
    : kernels_(kernels), team_(team), packed_right_(static_cast<size_t>(team.threads())) {
  const int64_t left = kernels.packed_words(most_left_columns, kGradientDepth);
  const int64_t right = kernels.packed_words(kGradientColumns, kGradientDepth);
  memory_.reserve(Arena::size_of<uint32_t>(left) + team.threads() * Arena::size_of<uint32_t>(right));
  packed_left_ = memory_.take<uint32_t>(left);
  for (uint32_t*& packed : packed_right_) packed = memory_.take<uint32_t>(right);
}

void* FusedProducts::moved_down(void* values, int64_t count) const {
  return values == nullptr ? nullptr : static_cast<std::byte*>(values) + count * kernels_.value_bytes();
}

void FusedProducts::linear(const FusedWeight& weight, Way way, const FusedMatrix& left, LinearTask task,
                           int64_t first, int64_t rows) const {
  const int64_t depth = way == Way::forward ? weight.in() : weight.out();
  const int64_t blocks = (way == Way::forward ? weight.out() : weight.in()) / kBlock;
  const int64_t chunk = std::clamp<int64_t>(kChunkBytes / (2 * depth * kBlock), 1, blocks);
  const int64_t part_rows =
      std::clamp(rows / kParts / kLeastPartRows * kLeastPartRows, kLeastPartRows, kMostPartRows);
  const int64_t parts = (rows + part_rows - 1) / part_rows;
  task.right = way == Way::forward ? weight.forward() : weight.backward();
  task.steps = depth / amx::kStep;
  task.left_stride = left.stride;
  team_.each(parts * ((blocks + chunk - 1) / chunk), [&](int64_t item, int) {
    LinearTask part = task;
    const int64_t row = first + item % parts * part_rows;
    part.rows = std::min(part_rows, first + rows - row);
    part.left = left.row(row);
    part.drop_row = task.drop_row + row;
    part.first_block = item / parts * chunk;
    part.end_block = std::min(blocks, part.first_block + chunk);
    part.out = moved_down(task.out, row * task.out_stride);
    part.slope = moved_down(task.slope, row * task.out_stride);
    if (task.stream != nullptr) part.stream = task.stream + row * task.stream_stride;
    kernels_.linear(part);
  });
}

void FusedProducts::add_gradient(const FusedMatrix& left, const FusedMatrix& right, int64_t rows, float* out,
                                 bool add) const {
  const int64_t left_blocks = left.columns / kBlock;
  for (int64_t top = 0; top < rows; top += kGradientDepth) {
    const int64_t depth = std::min(kGradientDepth, rows - top), steps = depth / amx::kStep;
    const amx::Factor factor{left.row(top), kernels_.element, false, left.columns, depth, left.stride};
    team_.each(left_blocks, [&](int64_t i, int) {
      kernels_.pack(factor, amx::Side::left, i * kBlock, 0, steps,
                    packed_left_ + i * steps * kernels_.step_words());
    });
    team_.each((right.columns + kGradientColumns - 1) / kGradientColumns, [&](int64_t chunk, int member) {
      const int64_t column = chunk * kGradientColumns;
      kernels_.add_gradient({.left = packed_left_,
                             .left_blocks = left_blocks,
                             .right = right.at(top, column),
                             .right_stride = right.stride,
                             .right_columns = std::min(kGradientColumns, right.columns - column),
                             .depth = depth,
                             .add = add || top > 0,
                             .out = out + column * left.columns,
                             .scratch = packed_right_[static_cast<size_t>(member)]});
    });
  }
}

}  // namespace bridle
