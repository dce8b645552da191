// Work on whole rows between products: norms there and back, sums of columns, dropout.
#pragma once

#include <cmath>

#include "kernels/step_linear_body.h"

namespace bridle {
namespace {

// Entries of a row that count; the others are zero.
BRIDLE_INLINE Floats counted(const NormTask& task, Floats x, int64_t column) {
  if (column + kLanes <= task.size) return x;
  return count_up(static_cast<int32_t>(column)) < static_cast<int32_t>(task.size) ? x : splat(0.0F);
}

BRIDLE_INLINE Floats tanh_of(Floats x) {
  const Floats twice = exponential(x * -2.0F);
  return 2.0F / (1.0F + twice) - 1.0F;
}

void norm(const NormTask& task) {
  const float each = 1.0F / static_cast<float>(task.size);
  for (int64_t row = 0; row < task.rows; ++row) {
    const float* x = task.stream + row * task.columns;
    Bfloat16 *normal = task.normal + row * task.stride, *out = task.out + row * task.stride;
    float mean = 0.0F, inverse = 1.0F;
    if (task.kind == NormLayer::layer_norm) {
      Floats sum = splat(0.0F);
      for (int64_t j = 0; j < task.columns; j += kLanes) sum = sum + counted(task, load(x + j), j);
      mean = sum_of(sum) * each;
    }
    if (task.kind != NormLayer::tanh) {
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
BRIDLE_INLINE Floats of_normal(const NormTask& task, const Bfloat16* out, int64_t j) {
  const Floats d = load(out + j);
  return task.gain == nullptr ? d : d * load(task.gain + j);
}

void norm_backward(const NormTask& task) {
  const float each = 1.0F / static_cast<float>(task.size);
  for (int64_t row = 0; row < task.rows; ++row) {
    const Bfloat16 *normal = task.normal + row * task.stride, *d_out = task.out + row * task.stride;
    float* stream = task.stream + row * task.columns;
    Floats sum = splat(0.0F), along = splat(0.0F);
    if (task.kind != NormLayer::tanh) {
      for (int64_t j = 0; j < task.columns; j += kLanes) {
        const Floats d = counted(task, of_normal(task, d_out, j), j);
        sum = sum + d;
        along = along + d * load(normal + j);
      }
    }
    const float mean = task.kind == NormLayer::layer_norm ? sum_of(sum) * each : 0.0F;
    const float share = sum_of(along) * each, inverse = task.inverse[row];
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      const Floats y = load(normal + j), d = of_normal(task, d_out, j);
      const Floats slope =
          task.kind == NormLayer::tanh ? d * (1.0F - y * y) : (d - mean - y * share) * inverse;
      const Floats kept = counted(task, load(stream + j) * task.keep + slope, j);
      store(stream + j, kept);
      store(task.copy + row * task.stride + j, kept);
    }
  }
}

void add_columns(const ColumnsTask& task) {
  for (int64_t j = task.first; j < task.end; j += kLanes) {
    Floats sum = splat(0.0F);
    for (int64_t row = 0; row < task.rows; ++row) {
      const Floats left = load(task.left + row * task.stride + j);
      sum = sum + (task.right == nullptr ? left : left * load(task.right + row * task.right_stride + j));
    }
    store(task.out + j, load(task.out + j) + sum);
  }
}

void drop(const DropTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    const uint32_t key = dropout_row(task.key, static_cast<uint64_t>(task.first_row + row));
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      const Floats x = load(task.in + row * task.stride + j);
      store(task.out + row * task.stride + j, dropped(x, key, j, task.threshold, task.scale));
    }
  }
}

}  // namespace
}  // namespace bridle
