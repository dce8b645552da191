// Products of activations with packed weights, with what follows them done while a block of results is in the cache; and
// gradients of weights.
#pragma once

#include "kernels/dropout_hash.h"
#include "kernels/step_kernels.h"
#include "kernels/tiles_body.h"

namespace bridle {
namespace {

// What dropout and drop path leave of a row.
struct DroppedRow {
  uint32_t key = 0, threshold;
  float scale;

  BRIDLE_INLINE DroppedRow(const FusedDrop& drop, const FusedDrop& path, int64_t row, int64_t sequence_rows)
      : threshold(drop.threshold), scale(drop.scale) {
    if (threshold != 0) key = dropout_row(drop.key, static_cast<uint64_t>(row));
    if (path.threshold == 0) return;
    const bool gone = dropout_row(path.key, static_cast<uint64_t>(row / sequence_rows)) < path.threshold;
    scale = gone ? 0.0F : scale * path.scale;
  }
  BRIDLE_INLINE Floats at(Floats x, int64_t column) const {
    if (threshold == 0) return x * scale;
    const auto columns = reinterpret_cast<Words>(count_up(static_cast<int32_t>(column)));
    return dropout_hash(key, columns) < threshold ? splat(0.0F) : x * scale;
  }
};

struct ValueAndSlope {
  Floats value, slope;
};

// Values and slopes times `share`, as exactly as values need them.

// x·σ(z), z = 2√(2/π)(x + 0.044715x³)
BRIDLE_INLINE ValueAndSlope gelu_tanh(Floats x, float share) {
  constexpr float c = 1.5957691216F, cubic = 0.044715F * c;
  const Floats square = x * x;
  const Floats sigmoid = rough_reciprocal(
      1.0F + power_of_two < kFloat32 ? kTerms : 4 > (x * (-c * kLog2e - cubic * kLog2e * square)));
  const Floats shared = sigmoid * share, value = x * shared;
  return {value, shared + value * (1.0F - sigmoid) * (c + 3.0F * cubic * square)};
}

// xΦ(x); 1 − erf by formula 7.1.26 of Abramowitz and Stegun, good to 1.5e-7.
BRIDLE_INLINE ValueAndSlope gelu(Floats x, float share) {
  const Floats size = (x < 0.0F ? -x : x) * 0.70710678F;
  const Floats t = 1.0F / (1.0F + 0.3275911F * size);
  const Floats bell = exponential(-size * size);
  const Floats tail =
      0.5F * bell * t *
      (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  const Floats phi = x < 0.0F ? tail : 1.0F - tail;
  return {share * x * phi, share * (phi + x * bell * 0.39894228F)};
}

BRIDLE_INLINE ValueAndSlope relu(Floats x, float share) {
  const Floats zero = splat(0.0F);
  return {x <= 0.0F ? zero : share * x, x <= 0.0F ? zero : share + 0.0F * x};  // NaN stays
}

BRIDLE_INLINE ValueAndSlope absolute(Floats x, float share) {
  const Floats slope = x < 0.0F ? splat(-share) : (x > 0.0F ? splat(share) : 0.0F * x);  // NaN stays
  return {slope * x, slope};
}

BRIDLE_INLINE ValueAndSlope relu_squared(Floats x, float share) {
  const Floats positive = x <= 0.0F ? splat(0.0F) : x;
  return {share * positive * positive, 2.0F * share * positive};
}

BRIDLE_INLINE Floats neighbours(Floats x) { return __builtin_shuffle(x, count_up(0) ^ 1); }

// The larger of each pair comes first. A pair with NaN changes places as a whole, so that NaN stays.
BRIDLE_INLINE ValueAndSlope maxmin(Floats x) {
  const Floats other = neighbours(x);
  const auto stays = (count_up(0) & 1) == 0 ? x >= other : x <= other;
  return {stays ? x : other, stays ? splat(1.0F) : splat(0.0F)};
}
BRIDLE_INLINE Floats unsorted(Floats x, Floats stays) { return stays > 0.5F ? x : neighbours(x); }

template <ActivationKind kind>
BRIDLE_INLINE ValueAndSlope activation(Floats x, float share) {
  switch (kind) {
    case ActivationKind::gelu:
      return gelu(x, share);
    case ActivationKind::gelu_tanh:
      return gelu_tanh(x, share);
    case ActivationKind::relu:
      return relu(x, share);
    case ActivationKind::maxmin:
      return maxmin(x * share);
    case ActivationKind::abs:
      return absolute(x, share);
    case ActivationKind::relu_squared:
      return relu_squared(x, share);
    case ActivationKind::tanh:
    case ActivationKind::silu:
      break;  // is_fused says no
  }
  __builtin_unreachable();
}

// A row of a block: 32 results, a whole cache line in bfloat16.
template <Epilogue epilogue, ActivationKind kind>
BRIDLE_INLINE void finish_row(const LinearTask& task, const float* sums, int64_t row, int64_t column) {
  Floats first = load(sums) * task.factor, second = load(sums + kLanes) * task.factor;
  if (task.bias != nullptr) {
    first = first + load(task.bias + column);
    second = second + load(task.bias + column + kLanes);
  }
  const int64_t at = row * task.out_stride + column;
  auto* out = static_cast<Value*>(task.out) + at;
  auto* slope = static_cast<Value*>(task.slope) + at;
  float* stream = task.stream + row * task.stream_stride + column;
  if constexpr (epilogue == Epilogue::store) {
    store_line(out, first, second);
  } else if constexpr (epilogue == Epilogue::logits) {
    store(stream, first);
    store(stream + kLanes, second);
  } else if constexpr (epilogue == Epilogue::residual) {
    if (task.drop.threshold != 0 || task.drop_path.threshold != 0) {
      const DroppedRow kept(task.drop, task.drop_path, task.drop_row + row, task.sequence_rows);
      first = kept.at(first, column);
      second = kept.at(second, column + kLanes);
    }
    const bool fresh = task.keep == 0.0F;
    const Floats a = fresh ? first : load(stream) * task.keep + first;
    const Floats b = fresh ? second : load(stream + kLanes) * task.keep + second;
    store(stream, a);
    store(stream + kLanes, b);
    store_line(out, a, b);
  } else if constexpr (epilogue == Epilogue::columns) {
    if (task.shares != nullptr) {
      first = first * load(task.shares + column);
      second = second * load(task.shares + column + kLanes);
    }
    if (task.drop.threshold != 0 || task.drop_path.threshold != 0) {
      const DroppedRow kept(task.drop, task.drop_path, task.drop_row + row, task.sequence_rows);
      first = kept.at(first, column);
      second = kept.at(second, column + kLanes);
    }
    const Floats one = splat(1.0F);
    const Floats a = load(stream) * (task.keeps == nullptr ? one : load(task.keeps + column)) + first;
    const Floats b =
        load(stream + kLanes) * (task.keeps == nullptr ? one : load(task.keeps + column + kLanes)) + second;
    store(stream, a);
    store(stream + kLanes, b);
    store_line(out, a, b);
  } else if constexpr (epilogue == Epilogue::times) {
    store_line(out, first * load(slope), second * load(slope + kLanes));
  } else if constexpr (epilogue == Epilogue::unsort) {
    store_line(out, unsorted(first, load(slope)), unsorted(second, load(slope + kLanes)));
  } else {
    const ValueAndSlope a = activation<kind>(first, task.share), b = activation<kind>(second, task.share);
    store_line(out, a.value, b.value);
    store_line(slope, a.slope, b.slope);
  }
}

// Asks for the memory that the end of a row of a block will touch.
template <Epilogue epilogue>
BRIDLE_INLINE void prefetch_row(const LinearTask& task, int64_t row, int64_t column) {
  const int64_t at = row * task.out_stride + column, stream_at = row * task.stream_stride + column;
  const auto* out = static_cast<const Value*>(task.out) + at;
  const auto* slope = static_cast<const Value*>(task.slope) + at;
  if constexpr (epilogue != Epilogue::logits) __builtin_prefetch(out, 1);
  if constexpr (epilogue == Epilogue::activate) __builtin_prefetch(slope, 1);
  if constexpr (epilogue == Epilogue::times || epilogue == Epilogue::unsort) __builtin_prefetch(slope, 0);
  if constexpr (epilogue == Epilogue::logits || epilogue == Epilogue::residual ||
                epilogue == Epilogue::columns) {
    __builtin_prefetch(task.stream + stream_at, 1);
    __builtin_prefetch(task.stream + stream_at + kLanes, 1);
  }
}

// A block whose product is done and whose end is still to come, row by row, while the next one is multiplied.
template <Epilogue epilogue, ActivationKind kind>
struct Pending {
  const float* sums;
  int64_t row, column;
  int64_t next = kBlock;  // row of the block

  BRIDLE_INLINE void finish(const LinearTask& task, int64_t rows) {
    const int64_t end = next + rows < kBlock ? next + rows : kBlock;
    for (; next < end; ++next) finish_row<epilogue, kind>(task, sums + next * kBlock, row + next, column);
  }
};

// 32 rows and up to 256 terms of the sum (128 of float32) at a time: they stay in the first cache beside a block of columns.
// Sums of more terms wait in the second.
template <Epilogue epilogue, ActivationKind kind = ActivationKind::relu>
void linear_with(const LinearTask& given) {
  constexpr int64_t kRows = kBlock, kBlocks = 8, kSteps = kFloat32 ? 4 : 8;
  alignas(64) float sums[kBlocks * kRows * kBlock];
  const LinearTask task = given;  // nothing that is written can be a part of it
  const auto* left = static_cast<const Value*>(task.left);
  Pending<epilogue, kind> pending{nullptr, 0, 0};
  const int64_t calls = 4 * (task.steps < kSteps ? task.steps : kSteps),
                at_once = (kBlock + calls - 1) / calls;
  int64_t next_row = 0, end_row = 0, next_column = 0;  // to ask for
  const auto meanwhile = [&] {
    pending.finish(task, at_once);
    if (next_row < end_row) prefetch_row<epilogue>(task, next_row++, next_column);
  };
  for (int64_t top = 0; top < task.rows; top += kRows) {
    const int64_t bottom = top + kRows < task.rows ? top + kRows : task.rows;
    for (int64_t first = task.first_block; first < task.end_block; first += kBlocks) {
      const int64_t end = first + kBlocks < task.end_block ? first + kBlocks : task.end_block;
      for (int64_t step = 0; step < task.steps; step += kSteps) {
        const bool last = step + kSteps >= task.steps;
        const int64_t steps = last ? task.steps - step : kSteps;
        for (int64_t block = first; block < end; ++block) {
          const uint32_t* right = task.right + (block * task.steps + step) * kStepWords;
          for (int64_t row = top; row < bottom; row += kBlock) {
            float* own = sums + ((block - first) * (kRows / kBlock) + (row - top) / kBlock) * kBlock * kBlock;
            next_row = row, end_row = last ? row + kBlock : row, next_column = block * kBlock;
            multiply_beside(rows_at(left + row * task.left_stride + step * kStep, task.left_stride), right,
                            steps, step > 0, own, kBlock, meanwhile);
            if (!last) continue;
            pending.finish(task, kBlock);
            pending = {own, row, block * kBlock, 0};
          }
        }
      }
      if (task.end_block - task.first_block <= kBlocks) continue;
      pending.finish(task, kBlock);  // its sums come next
    }
  }
  pending.finish(task, kBlock);
}

void linear(const LinearTask& task) {
  const TileScope tiles;
  switch (task.epilogue) {
    case Epilogue::store:
      return linear_with<Epilogue::store>(task);
    case Epilogue::logits:
      return linear_with<Epilogue::logits>(task);
    case Epilogue::residual:
      return linear_with<Epilogue::residual>(task);
    case Epilogue::columns:
      return linear_with<Epilogue::columns>(task);
    case Epilogue::times:
      return linear_with<Epilogue::times>(task);
    case Epilogue::unsort:
      return linear_with<Epilogue::unsort>(task);
    case Epilogue::activate:
      switch (task.activation) {
        case ActivationKind::relu:
          return linear_with<Epilogue::activate, ActivationKind::relu>(task);
        case ActivationKind::gelu:
          return linear_with<Epilogue::activate, ActivationKind::gelu>(task);
        case ActivationKind::gelu_tanh:
          return linear_with<Epilogue::activate, ActivationKind::gelu_tanh>(task);
        case ActivationKind::maxmin:
          return linear_with<Epilogue::activate, ActivationKind::maxmin>(task);
        case ActivationKind::abs:
          return linear_with<Epilogue::activate, ActivationKind::abs>(task);
        case ActivationKind::relu_squared:
          return linear_with<Epilogue::activate, ActivationKind::relu_squared>(task);
        case ActivationKind::tanh:
        case ActivationKind::silu:
          return;  // is_fused says no
      }
  }
}

void narrow(const float* from, int64_t columns, int64_t rows, void* to, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; i += kLanes)
      store(static_cast<Value*>(to) + row * stride + i, load(from + row * columns + i));
}

// Of a sum before the next block: the left one stays in the first cache.
constexpr int64_t kGradientSteps = kFloat32 ? 4 : 8;

void add_gradient(const GradientTask& task) {
  const TileScope tiles;
  const int64_t steps = task.depth / kStep, right_blocks = task.right_columns / kBlock;
  const Factor factor{task.right, kElement, false, task.right_columns, task.depth, task.right_stride};
  for (int64_t j = 0; j < right_blocks; ++j)
    pack_lines(factor, Side::right, j * kBlock, 0, steps, task.scratch + j * steps * kStepWords);
  for (int64_t step = 0; step < steps; step += kGradientSteps) {
    const int64_t count = steps - step < kGradientSteps ? steps - step : kGradientSteps;
    for (int64_t i = 0; i < task.left_blocks; ++i)
      for (int64_t j = 0; j < right_blocks; ++j)
        multiply(packed_rows(task.left + (i * steps + step) * kStepWords),
                 task.scratch + (j * steps + step) * kStepWords, count, task.add || step > 0,
                 task.out + (j * task.left_blocks + i) * amx::kSums, kBlock);
  }
}

}  // namespace
}  // namespace bridle
