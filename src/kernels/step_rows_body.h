// Work on whole rows between products: norms there and back, sums of columns, dropout.
#pragma once

#include <cmath>

#include "kernels/step_linear_body.h"
#include "kernels/step_loss_body.h"

namespace bridle {
namespace {

// Entries of a row that count; the others are zero.
BRIDLE_INLINE Floats counted(const NormTask& task, Floats x, int64_t column) {
  if (column + kLanes <= task.size) return x;
  return count_up(static_cast<int32_t>(column)) < static_cast<int32_t>(task.size) ? x : splat(0.0F);
}

void norm(const NormTask& task) {
  const float each = 1.0F / static_cast<float>(task.size);
  for (int64_t row = 0; row < task.rows; ++row) {
    const float* x = task.stream + row * task.columns;
    auto *normal = static_cast<Value*>(task.normal) + row * task.stride,
         *out = static_cast<Value*>(task.out) + row * task.stride;
    float mean = 0.0F, inverse = 1.0F;
    if (task.kind == NormLayer::layer_norm || task.kind == NormLayer::center_norm) {
      Floats sum = splat(0.0F);
      for (int64_t j = 0; j < task.columns; j += kLanes) sum = sum + counted(task, load(x + j), j);
      mean = sum_of(sum) * each;
    }
    if (task.kind == NormLayer::center_norm)
      inverse = static_cast<float>(task.size) / static_cast<float>(task.size - 1);
    if (task.kind == NormLayer::rms_norm || task.kind == NormLayer::layer_norm) {
      Floats squares = splat(0.0F);
      for (int64_t j = 0; j < task.columns; j += kLanes) {
        const Floats centred = counted(task, load(x + j) - mean, j);
        squares = squares + centred * centred;
      }
      const float square = sum_of(squares) * each + task.epsilon;
      inverse = square == 0.0F ? 0.0F : 1.0F / std::sqrt(square);  // rows of padding are zero
    }
    task.inverse[row] = inverse;
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      Floats y = task.kind == NormLayer::tanh ? tanh_of(load(x + j)) : (load(x + j) - mean) * inverse;
      y = counted(task, y, j);
      store(normal + j, y);
      if (task.gain != nullptr) y = y * load(task.gain + j);
      if (task.bias != nullptr) y = y + load(task.bias + j);
      if (out != normal) store(out + j, y);
    }
  }
}

// The gradient of x̂ at a column.
BRIDLE_INLINE Floats of_normal(const NormTask& task, const Value* out, int64_t j) {
  const Floats d = load(out + j);
  return task.gain == nullptr ? d : d * load(task.gain + j);
}

template <bool by_column>
void norm_backward_with(const NormTask& task) {
  const float each = 1.0F / static_cast<float>(task.size);
  for (int64_t row = 0; row < task.rows; ++row) {
    const auto *normal = static_cast<const Value*>(task.normal) + row * task.stride,
               *d_out = static_cast<const Value*>(task.out) + row * task.stride;
    float* stream = task.stream + row * task.columns;
    Floats sum = splat(0.0F), along = splat(0.0F);
    if (task.kind != NormLayer::tanh) {
      for (int64_t j = 0; j < task.columns; j += kLanes) {
        const Floats d = counted(task, of_normal(task, d_out, j), j);
        sum = sum + d;
        along = along + d * load(normal + j);
      }
    }
    const bool centred = task.kind == NormLayer::layer_norm || task.kind == NormLayer::center_norm;
    const float mean = centred ? sum_of(sum) * each : 0.0F, inverse = task.inverse[row];
    const float share = task.kind == NormLayer::center_norm ? 0.0F : sum_of(along) * each;
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      const Floats y = load(normal + j), d = of_normal(task, d_out, j);
      const Floats slope =
          task.kind == NormLayer::tanh ? d * (1.0F - y * y) : (d - mean - y * share) * inverse;
      Floats kept;
      if constexpr (by_column)
        kept = counted(task, load(stream + j) * load(task.keeps + j) + slope, j);
      else
        kept = counted(task, load(stream + j) * task.keep + slope, j);
      store(stream + j, kept);
      store(static_cast<Value*>(task.copy) + row * task.stride + j, kept);
    }
  }
}

void norm_backward(const NormTask& task) {
  if (task.keeps == nullptr)
    norm_backward_with<false>(task);
  else
    norm_backward_with<true>(task);
}

void add_columns(const ColumnsTask& task) {
  const auto *lefts = static_cast<const Value*>(task.left), *rights = static_cast<const Value*>(task.right);
  for (int64_t j = task.first; j < task.end; j += kLanes) {
    Floats sum = splat(0.0F);
    for (int64_t row = 0; row < task.rows; ++row) {
      const Floats left = load(lefts + row * task.stride + j);
      sum = sum + (rights == nullptr ? left : left * load(rights + row * task.right_stride + j));
    }
    store(task.out + j, load(task.out + j) + sum);
  }
}

void drop(const DropTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    const DroppedRow kept(task.drop, task.drop_path, task.first_row + row, task.sequence_rows);
    const auto* in = static_cast<const Value*>(task.in) + row * task.stride;
    auto* out = static_cast<Value*>(task.out) + row * task.stride;
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      const Floats x = kept.at(load(in + j), j);
      store(out + j, task.shares == nullptr ? x : x * load(task.shares + j));
    }
  }
}

}  // namespace
}  // namespace bridle
