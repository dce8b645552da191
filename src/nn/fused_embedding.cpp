#include "nn/fused_embedding.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/dropout_hash.h"
#include "nn/fused_group.h"

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;

const float* values_of(const Param& param) { return static_cast<const float*>(param.tensor.data_ptr()); }

}  // namespace

FusedEmbedding::FusedEmbedding(FusedProgram& program, FusedEmbeddingOptions options)
    : options_(std::move(options)),
      table_place_(program.place_of(options_.table)),
      width_(padded(options_.table.tensor.size(1))),
      sums_(program.sums(options_.table.tensor.size(0) * width_, /*from_zero=*/true)) {
  if (options_.dropout > 0.0) dropout_call_ = program.next_dropout_call();
  if (!options_.positions) return;
  positions_place_ = program.place_of(*options_.positions);
  positions_sums_ = program.sums(0, /*from_zero=*/true);
}

void FusedEmbedding::set_rows(FusedProgram& program, int64_t rows) {
  rows_ = rows;
  if (options_.positions) program.resize_sums(positions_sums_, rows * width_);
}

void FusedEmbedding::forward(FusedGroup& group, const FusedPart& part) const {
  const float* table = values_of(options_.table);
  const float* positions = options_.positions ? values_of(*options_.positions) : nullptr;
  const int64_t size = options_.table.tensor.size(1), length = group.shape().length,
                rows = group.shape().rows;
  const FusedMatrix copy = group.matrix(options_.copy);
  float* stream = group.floats(options_.stream);
  group.team().each(part.count, [&](int64_t which, int) {
    const int64_t sequence = part.sequence + which, first = sequence * rows;
    for (int64_t t = 0; t < rows; ++t) {
      float* x = stream + (first + t) * width_;
      std::fill_n(x, width_, 0.0F);
      if (t >= length) continue;
      std::copy_n(table + group.inputs().tokens[sequence * length + t] * size, size, x);
      for (int64_t i = 0; i < size && positions != nullptr; ++i) x[i] += positions[t * size + i];
      drop(group, first + t, x);
    }
    group.kernels().narrow(stream + first * width_, width_, rows, copy.row(first), copy.stride);
  });
}

void FusedEmbedding::drop(const FusedGroup& group, int64_t row, float* x) const {
  const FusedDrop drops = group.drop(options_.dropout, dropout_call_);
  if (drops.threshold == 0) return;
  const uint32_t key =
      dropout_row(drops.key, static_cast<uint64_t>(group.inputs().sequence * group.shape().rows + row));
  for (int64_t i = 0; i < width_; ++i)
    x[i] = dropout_hash(key, static_cast<uint32_t>(i)) < drops.threshold ? 0.0F : x[i] * drops.scale;
}

// In the order of the tokens; members take columns.
void FusedEmbedding::backward(FusedGroup& group, const FusedPart& part) const {
  const Team& team = group.team();
  const int64_t length = group.shape().length, rows = group.shape().rows;
  float* stream = group.floats(options_.stream);
  team.each(part.rows,
            [&](int64_t row, int) { drop(group, part.first + row, stream + (part.first + row) * width_); });
  float* sums = group.sums_at(sums_);
  float* positions = options_.positions ? group.sums_at(positions_sums_) : nullptr;
  team.each(team.threads() == 1 ? 1 : width_ / kBlock, [&](int64_t item, int) {
    const int64_t begin = item * kBlock, end = team.threads() == 1 ? width_ : begin + kBlock;
    for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
      for (int64_t t = 0; t < length; ++t) {
        const float* gradient = stream + (sequence * rows + t) * width_;
        float* row = sums + group.inputs().tokens[sequence * length + t] * width_;
        for (int64_t i = begin; i < end; ++i) row[i] += gradient[i];
        if (positions == nullptr) continue;
        for (int64_t i = begin; i < end; ++i) positions[t * width_ + i] += gradient[i];
      }
    }
  });
}

void FusedEmbedding::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  results[table_place_] = at::zeros_like(options_.table.tensor.detach());
  slots.add_rows(sums_, width_, mean, results[table_place_]);
  if (!options_.positions) return;
  at::Tensor& positions = results[positions_place_] = at::zeros_like(options_.positions->tensor.detach());
  slots.add_rows(positions_sums_, width_, mean, positions.narrow(0, 0, std::min(rows_, positions.size(0))));
}

void FusedVectors::forward(FusedGroup& group, const FusedPart& /*part*/) const {
  const FusedMatrix out = group.matrix(out_);
  const float* from = group.inputs().vectors;
  const int64_t count = group.shape().length;
  group.team().each(group.rows() / kBlock, [&](int64_t part, int) {
    const int64_t row = part * kBlock, own = std::clamp<int64_t>(count - row, 0, kBlock);
    if (size_ == out.columns) {
      group.kernels().narrow(from + row * size_, size_, own, out.row(row), out.stride);
    } else {
      std::vector<float> whole(static_cast<size_t>(out.columns), 0.0F);
      for (int64_t i = row; i < row + own; ++i) {
        std::copy_n(from + i * size_, size_, whole.begin());
        group.kernels().narrow(whole.data(), out.columns, 1, out.row(i), out.stride);
      }
    }
    std::fill(out.row(row + own), out.row(row + kBlock), std::byte{0});
  });
}

}  // namespace bridle
