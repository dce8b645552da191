// Products of activations with packed weights, with what follows them done while a block of results is in the cache; and
// gradients of weights.
#pragma once

#include "kernels/step_kernels.h"
#include "kernels/tiles_body.h"

namespace bridle {
namespace {

struct ValueAndSlope {
  Floats value, slope;
};

// x·σ(z), z = 2√(2/π)(x + 0.044715x³)
BRIDLE_INLINE ValueAndSlope gelu_tanh(Floats x) {
  constexpr float c = 1.5957691216F, cubic = 0.044715F * c;
  const Floats square = x * x;
  const Floats z = x * (c + cubic * square);
  const Floats sigmoid = reciprocal(1.0F + exponential(smaller(larger(-z, splat(-60.0F)), splat(60.0F))));
  return {x * sigmoid, sigmoid + x * sigmoid * (1.0F - sigmoid) * (c + 3.0F * cubic * square)};
}

// xΦ(x); 1 − erf by formula 7.1.26 of Abramowitz and Stegun, good to 1.5e-7.
BRIDLE_INLINE ValueAndSlope gelu(Floats x) {
  const Floats size = (x < 0.0F ? -x : x) * 0.70710678F;
  const Floats t = reciprocal(1.0F + 0.3275911F * smaller(size, splat(1e9F)));
  const Floats bell = exponential(larger(-size * size, splat(-87.0F)));
  const Floats tail =
      0.5F * bell * t *
      (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  const Floats phi = x < 0.0F ? tail : 1.0F - tail;
  return {x * phi, phi + x * bell * 0.39894228F};
}

template <ActivationKind kind>
BRIDLE_INLINE ValueAndSlope activation(Floats x) {
  if constexpr (kind == ActivationKind::relu) {
    const Floats zero = splat(0.0F);
    return {x > 0.0F ? x : zero, x > 0.0F ? splat(1.0F) : zero};
  } else if constexpr (kind == ActivationKind::gelu) {
    return gelu(x);
  } else {
    return gelu_tanh(x);
  }
}

template <Epilogue epilogue, ActivationKind kind>
BRIDLE_INLINE void finish_row(const LinearTask& task, const float* sums, int64_t row, int64_t column) {
#pragma GCC unroll 2
  for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
    const Floats x = load(sums + lane) * task.factor;
    const int64_t at = row * task.out_stride + column + lane;
    const int64_t at_stream = row * task.stream_stride + column + lane;
    if constexpr (epilogue == Epilogue::store) {
      store(task.out + at, x);
    } else if constexpr (epilogue == Epilogue::logits) {
      store(task.stream + at_stream, x);
    } else if constexpr (epilogue == Epilogue::residual) {
      const Floats y = task.keep == 0.0F ? x : load(task.stream + at_stream) * task.keep + x;
      store(task.stream + at_stream, y);
      store(task.out + at, y);
    } else if constexpr (epilogue == Epilogue::times) {
      store(task.out + at, x * load(task.slope + at));
    } else {
      const ValueAndSlope y = activation<kind>(x);
      const float share = 1.0F / task.divisor;
      store(task.out + at, y.value * share);
      store(task.slope + at, y.slope * share);
    }
  }
}

// 64 rows at a time: they and a block of columns stay in the first cache.
template <Epilogue epilogue, ActivationKind kind = ActivationKind::relu>
void linear_with(const LinearTask& task) {
  constexpr int64_t kRows = 2 * kBlock;
  alignas(64) float sums[kBlock * kBlock];
  for (int64_t top = 0; top < task.rows; top += kRows) {
    const int64_t bottom = top + kRows < task.rows ? top + kRows : task.rows;
    for (int64_t block = task.first_block; block < task.end_block; ++block) {
      const uint32_t* right = task.right + block * task.steps * kPairsPerStep;
      for (int64_t row = top; row < bottom; row += kBlock) {
        multiply(rows_at(task.left + row * task.left_stride, task.left_stride), right, task.steps, false,
                 sums, kBlock);
        for (int64_t i = 0; i < kBlock; ++i)
          finish_row<epilogue, kind>(task, sums + i * kBlock, row + i, block * kBlock);
      }
    }
  }
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
    case Epilogue::times:
      return linear_with<Epilogue::times>(task);
    case Epilogue::activate:
      switch (task.activation) {
        case ActivationKind::relu:
          return linear_with<Epilogue::activate, ActivationKind::relu>(task);
        case ActivationKind::gelu:
          return linear_with<Epilogue::activate, ActivationKind::gelu>(task);
        case ActivationKind::gelu_tanh:
          return linear_with<Epilogue::activate, ActivationKind::gelu_tanh>(task);
      }
  }
}

void narrow(const float* from, int64_t columns, int64_t rows, uint16_t* to, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; i += kLanes)
      store(to + row * stride + i, load(from + row * columns + i));
}

constexpr int64_t kGradientSteps =
    8;  // of a sum before the next block: the left one stays in the first cache

void add_gradient(const GradientTask& task) {
  const TileScope tiles;
  const int64_t steps = task.depth / kStep, right_blocks = task.right_columns / kBlock;
  const Factor factor{task.right,         Element::bfloat16, false,
                      task.right_columns, task.depth,        task.right_stride};
  for (int64_t j = 0; j < right_blocks; ++j)
    pack_lines(factor, Side::right, j * kBlock, 0, steps, task.scratch + j * steps * kPairsPerStep);
  for (int64_t step = 0; step < steps; step += kGradientSteps) {
    const int64_t count = steps - step < kGradientSteps ? steps - step : kGradientSteps;
    for (int64_t i = 0; i < task.left_blocks; ++i)
      for (int64_t j = 0; j < right_blocks; ++j)
        multiply(packed_rows(task.left + (i * steps + step) * kPairsPerStep),
                 task.scratch + (j * steps + step) * kPairsPerStep, count, task.add || step > 0,
                 task.out + (j * task.left_blocks + i) * amx::kSums, kBlock);
  }
}

}  // namespace
}  // namespace bridle
