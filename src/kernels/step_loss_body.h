// Cross-entropy of rows of logits and its gradient.
#pragma once

#include <cmath>

#include "kernels/step_kernels.h"
#include "kernels/vectors.h"

namespace bridle {
namespace {

// A row's logits with −∞ past the classes.
BRIDLE_INLINE Floats logits_at(const LossTask& task, const float* row, int64_t column) {
  const Floats x = load(row + column);
  if (column + kLanes <= task.classes) return x;
  return count_up(static_cast<int32_t>(column)) < static_cast<int32_t>(task.classes) ? x : splat(-INFINITY);
}

BRIDLE_INLINE float largest_logit(const LossTask& task, const float* row) {
  Floats most = splat(-INFINITY);
  for (int64_t j = 0; j < task.columns; j += kLanes) most = larger(most, logits_at(task, row, j));
  return largest_of(most);
}

// The first of the largest logits is what the model says.
BRIDLE_INLINE bool is_first(const float* logits, int64_t target, float largest) {
  if (logits[target] < largest) return false;
  for (int64_t j = 0; j < target; ++j)
    if (logits[j] >= largest) return false;
  return true;
}

BRIDLE_INLINE Floats tanh_of(Floats x) {
  const Floats twice = exponential(x * -2.0F);
  return 2.0F / (1.0F + twice) - 1.0F;
}

void cross_entropy(LossTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    float* logits = task.logits + row * task.stride;
    auto* gradient = static_cast<Value*>(task.gradient);
    if (gradient != nullptr) gradient += row * task.gradient_stride;
    if (row >= task.tokens) {
      if (gradient != nullptr) std::memset(gradient, 0, static_cast<size_t>(task.columns) * sizeof(Value));
      continue;
    }
    if (task.bias != nullptr)
      for (int64_t j = 0; j < task.columns; j += kLanes)
        store(logits + j, load(logits + j) + load(task.bias + j));
    if (task.soft_cap != 0.0F)
      for (int64_t j = 0; j < task.columns; j += kLanes)
        store(logits + j, task.soft_cap * tanh_of(load(logits + j) * (1.0F / task.soft_cap)));
    const int64_t target = task.targets[row];
    float largest = largest_logit(task, logits);
    const bool hit = is_first(logits, target, largest);
    if (task.margin != 0.0F) {
      logits[target] -= task.margin;
      largest = largest_logit(task, logits);
    }
    Floats total = splat(0.0F);
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      const Floats x = logits_at(task, logits, j);
      total = total + exponential(x - largest);
    }
    const float sum = sum_of(total);
    task.loss += static_cast<double>(largest) + std::log(static_cast<double>(sum)) -
                 static_cast<double>(logits[target]);
    task.hits += sum == sum && hit ? 1 : 0;  // NaN is no answer
    if (gradient == nullptr) continue;
    const float share = 1.0F / sum;
    for (int64_t j = 0; j < task.columns; j += kLanes) {
      const Floats x = logits_at(task, logits, j);
      const Floats p = exponential(x - largest) * share;
      const auto is_target = count_up(static_cast<int32_t>(j)) == static_cast<int32_t>(target);
      Floats difference = is_target ? p - 1.0F : p;
      if (task.soft_cap != 0.0F) {  // times 1 − tanh², from the logit as it was before the margin
        const Floats t = (is_target ? x + task.margin : x) * (1.0F / task.soft_cap);
        difference = j + kLanes <= task.classes
                         ? difference * (1.0F - t * t)
                         : (x == -INFINITY ? splat(0.0F) : difference * (1.0F - t * t));
      }
      store(gradient + j, difference);
      if (task.d_bias != nullptr) store(task.d_bias + j, load(task.d_bias + j) + difference);
    }
  }
}

}  // namespace
}  // namespace bridle
