// See fused_weights.h.
#include "nn/fused_weights.h"

#include <algorithm>

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;

// Rows of a block of sums as rows of a gradient, or as its columns.
struct Block {
  float values[amx::kSums];
};

Block added_up(const std::vector<const float*>& slots, int64_t offset, float factor) {
  Block block;
  for (int64_t i = 0; i < amx::kSums; ++i) block.values[i] = slots.front()[offset + i];
  for (size_t slot = 1; slot < slots.size(); ++slot)
    for (int64_t i = 0; i < amx::kSums; ++i) block.values[i] += slots[slot][offset + i];
  for (float& value : block.values) value *= factor;
  return block;
}

}  // namespace

FusedWeight::FusedWeight(const StepKernels& kernels, std::vector<at::Tensor> parts, Left left, int64_t rows,
                         bool has_way_back, FusedColumns columns)
    : kernels_(kernels),
      parts_(std::move(parts)),
      left_(left),
      rows_(rows),
      has_way_back_(has_way_back),
      columns_(columns),
      in_(padded(columns.of(parts_.front()).size(1))) {
  int64_t start = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    starts_.push_back(start);
    start += padded(rows_of(part));
  }
  out_ = start;
}

size_t FusedWeight::part_at(int64_t row) const {
  return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), row) - starts_.begin()) - 1;
}

int64_t FusedWeight::bytes() const {
  return (has_way_back_ ? 2 : 1) * Arena::size_of<uint32_t>(packed_words());
}

void FusedWeight::take(Arena& arena) {
  forward_ = arena.take<uint32_t>(packed_words());
  if (has_way_back_) backward_ = arena.take<uint32_t>(packed_words());
}

void FusedWeight::pack_piece(int64_t piece) const {
  const int64_t in_steps = in_ / amx::kStep, step_words = kernels_.step_words();
  const auto factor = [this](size_t part, bool outputs_are_lines) {
    const at::Tensor weight = columns_.of(parts_[part].detach());
    return amx::Factor{.data = weight.data_ptr(),
                       .element = amx::Element::float32,
                       .along_depth = outputs_are_lines,
                       .lines = outputs_are_lines ? rows_of(part) : weight.size(1),
                       .depth = outputs_are_lines ? weight.size(1) : rows_of(part),
                       .stride = weight.stride(0)};
  };
  if (piece < out_ / kBlock) {
    const size_t part = part_at(piece * kBlock);
    kernels_.pack(factor(part, true), amx::Side::right, piece * kBlock - starts_[part], 0, in_steps,
                  forward_ + piece * in_steps * step_words);
    return;
  }
  const int64_t block = piece - out_ / kBlock;
  uint32_t* packed = backward_ + block * (out_ / amx::kStep) * step_words;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const int64_t steps = padded(rows_of(part)) / amx::kStep;
    kernels_.pack(factor(part, false), amx::Side::right, block * kBlock, 0, steps, packed);
    packed += steps * step_words;
  }
}

void FusedWeight::unpack(const Team& team, const std::vector<const float*>& slots, float factor,
                         const std::vector<at::Tensor>& gradients) const {
  const int64_t in_blocks = in_ / kBlock;
  const int64_t left_blocks = left_ == Left::in ? in_blocks : out_ / kBlock;
  team.each(out_ / kBlock, [&](int64_t out_block, int) {
    const size_t part = part_at(out_block * kBlock);
    const at::Tensor& gradient = gradients[part];
    const int64_t rows = gradient.size(0), columns = gradient.size(1), stride = gradient.stride(0),
                  first = out_block * kBlock - starts_[part];
    auto* data = static_cast<float*>(gradient.data_ptr());
    for (int64_t in_block = 0; in_block < in_blocks; ++in_block) {
      const int64_t block =
          left_ == Left::in ? out_block * left_blocks + in_block : in_block * left_blocks + out_block;
      const Block sums = added_up(slots, block * amx::kSums, factor);
      const int64_t row_step = left_ == Left::in ? 1 : kBlock, column_step = left_ == Left::in ? kBlock : 1;
      for (int64_t i = 0; i < std::min(kBlock, rows - first); ++i)
        for (int64_t j = 0; j < std::min(kBlock, columns - in_block * kBlock); ++j)
          data[(first + i) * stride + in_block * kBlock + j] = sums.values[i * row_step + j * column_step];
    }
  });
}

}  // namespace bridle
