// Heads that attend by position alone, over whole vectors, and a maximum that decays with distance, there and back: the parts of
// quadrature mixing (nn/mixing.h).
#pragma once

#include "kernels/step_attention_body.h"

namespace bridle {
namespace {

// Weights of a head for 32 tokens, times `factor`: rows of a strip, from block `first` on, zero where nothing is seen.
BRIDLE_INLINE void fill_weights(const MixTask& task, int64_t head, int64_t top, int64_t first, int64_t end,
                                float factor, Value* weights, int64_t stride) {
  for (int64_t i = 0; i < kBlock; ++i) {
    const int64_t token = top + i, begin = task.sees.begin(token);
    const float* table = task.exponentials + head * 2 * task.rows + task.rows - 1 - token;
    const float share = factor * task.shares[head * task.rows + token - begin];
    for (int64_t j = first * kBlock; j < end * kBlock; j += kLanes) {
      const Ints places = count_up(static_cast<int32_t>(j));
      Floats weight = load(table + j) * share;
      weight = places < static_cast<int32_t>(begin) ? splat(0.0F) : weight;
      store(weights + i * stride + j, places > static_cast<int32_t>(token) ? splat(0.0F) : weight);
    }
  }
}

// The vectors themselves, and each head's means of them.
void mix(const MixTask& task) {
  const TileScope tiles;
  const int64_t stride = task.rows + kBlock, size = task.size;
  Pieces pieces(task.scratch);
  auto* entries = pieces.take<uint32_t>(packed_words(task.rows, size));
  auto* weights = pieces.take<Value>(kBlock * stride);
  const auto* x = static_cast<const Value*>(task.x);
  auto* out = static_cast<Value*>(task.out);
  pack_entries(x, task.stride, task.rows, size, entries);
  for (int64_t row = 0; row < task.rows; ++row)
    for (int64_t j = 0; j < size; j += kLanes)
      store(out + row * task.out_stride + j, load(x + row * task.stride + j) * task.coefficients[0]);
  float ones[kBlock];
  for (float& one : ones) one = 1.0F;
  for (int64_t top = 0; top < task.rows; top += kBlock) {
    const int64_t first = task.sees.begin(top) / kBlock, end = top / kBlock + 1;
    for (int64_t head = 0; head < task.heads; ++head) {
      fill_weights(task, head, top, first, end, task.coefficients[1 + head], weights, stride);
      weighted_sum(weights, stride, entries, task.rows / kStep, first, end, ones,
                   out + top * task.out_stride + (1 + head) * size, task.out_stride, size);
    }
  }
}

// Of one head and 32 tokens: products of the gradient with the vectors that they read → what a coefficient and the exponents get.
BRIDLE_INLINE void add_exponent_gradients(const MixTask& task, int64_t head, int64_t top,
                                          const float* products, int64_t stride) {
  const float coefficient = task.coefficients[1 + head];
  for (int64_t i = 0; i < kBlock; ++i) {
    const int64_t token = top + i, begin = task.sees.begin(token), first = begin / kLanes * kLanes;
    const float* table = task.exponentials + head * 2 * task.rows + task.rows - 1 - token;
    float* d_bias = task.d_bias + head * 2 * task.rows + task.rows - 1 - token;
    const float share = task.shares[head * task.rows + token - begin];
    const auto weight_at = [&](int64_t j) {
      const Ints places = count_up(static_cast<int32_t>(j));
      Floats weight = load(table + j) * share;
      weight = places < static_cast<int32_t>(begin) ? splat(0.0F) : weight;
      return places > static_cast<int32_t>(token) ? splat(0.0F) : weight;
    };
    Floats total = splat(0.0F);
    for (int64_t j = first; j <= token; j += kLanes)
      total = total + weight_at(j) * load(products + i * stride + j);
    const float mean = sum_of(total);
    task.d_coefficients[1 + head] += mean;
    for (int64_t j = first; j <= token; j += kLanes)
      store(d_bias + j,
            load(d_bias + j) + weight_at(j) * (load(products + i * stride + j) - mean) * coefficient);
  }
}

void mix_backward(const MixTask& task) {
  const TileScope tiles;
  const int64_t stride = task.rows + kBlock, size = task.size, steps = size / kStep;
  Pieces pieces(task.scratch);
  auto* tokens = pieces.take<uint32_t>(packed_words(task.rows, size));
  auto* strip_d = pieces.take<uint32_t>(packed_words(kStripRows, size));
  auto* transposed = pieces.take<uint32_t>(packed_words(kStripRows, kBlock));
  auto* products = pieces.take<float>(kBlock * stride);
  auto* weights = pieces.take<Value>(kStripRows * stride);
  const auto *x = static_cast<const Value*>(task.x), *d_out = static_cast<const Value*>(task.d_out);
  pack_tokens(x, task.stride, task.rows, size, tokens);
  Floats along = splat(0.0F);
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t j = 0; j < size; j += kLanes) {
      const Floats d = load(d_out + row * task.out_stride + j);
      store(task.d_x + row * size + j, d * task.coefficients[0]);
      along = along + d * load(x + row * task.stride + j);
    }
  }
  task.d_coefficients[0] += sum_of(along);
  for (int64_t head = 0; head < task.heads; ++head) {
    const Value* d = d_out + (1 + head) * size;
    for (int64_t strip = 0; strip < task.rows; strip += kStripRows) {
      const int64_t rows = task.rows - strip < kStripRows ? task.rows - strip : kStripRows;
      const int64_t strip_first = task.sees.begin(strip) / kBlock, strip_blocks = (strip + rows) / kBlock;
      for (int64_t top = strip; top < strip + rows; top += kBlock) {
        fill_weights(task, head, top, strip_first, strip_blocks, task.coefficients[1 + head],
                     weights + (top - strip) * stride, stride);
        strip_of_products(d + top * task.out_stride, task.out_stride, tokens, steps,
                          task.sees.begin(top) / kBlock, top / kBlock + 1, products, stride);
        add_exponent_gradients(task, head, top, products, stride);
      }
      pack_entries(d + strip * task.out_stride, task.out_stride, rows, size, strip_d);
      add_transposed(weights, stride, rows, strip_first, strip_blocks, strip_d, size, task.d_x, transposed);
    }
  }
}

// m_i = max(v_i, m_{i−1} − λ), anew at the beginning of a document; `stays` is 1 where v_i was the larger.
void decaying_max(const DecayTask& task) {
  for (int64_t j = 0; j < task.channels; j += kLanes) {
    const Floats decay = load(task.decays + j);
    Floats most = splat(-INFINITY);
    for (int64_t row = 0; row < task.rows; ++row) {
      const Floats own = load(static_cast<const Value*>(task.v) + row * task.stride + j);
      const bool fresh = row == 0 || (task.begins != nullptr && task.begins[row] == row);
      const Floats before = fresh ? splat(-INFINITY) : most - decay;
      const auto stays = own >= before;
      most = before > own ? before : own;  // NaN stays
      store(static_cast<Value*>(task.stays) + row * task.stride + j, stays ? splat(1.0F) : splat(0.0F));
      store(static_cast<Value*>(task.out) + row * task.out_stride + j, most * task.coefficient);
    }
  }
}

void decaying_max_backward(const DecayTask& task) {
  for (int64_t j = 0; j < task.channels; j += kLanes) {
    const Floats decay = load(task.decays + j);
    Floats most = splat(-INFINITY), along = splat(0.0F);
    for (int64_t row = 0; row < task.rows; ++row) {
      const Floats own = load(static_cast<const Value*>(task.v) + row * task.stride + j);
      const bool fresh = row == 0 || (task.begins != nullptr && task.begins[row] == row);
      const Floats before = fresh ? splat(-INFINITY) : most - decay;
      most = before > own ? before : own;
      along = along + most * load(static_cast<const Value*>(task.d_out) + row * task.out_stride + j);
    }
    *task.d_coefficient += sum_of(along);
    Floats carried = splat(0.0F), d_decay = splat(0.0F);
    for (int64_t row = task.rows; row-- > 0;) {
      const Floats d = load(static_cast<const Value*>(task.d_out) + row * task.out_stride + j);
      const Floats total = d * task.coefficient + carried;
      const auto stays = load(static_cast<const Value*>(task.stays) + row * task.stride + j) > 0.5F;
      store(static_cast<Value*>(task.d_v) + row * task.stride + j, stays ? total : splat(0.0F));
      carried = stays ? splat(0.0F) : total;
      d_decay = d_decay - carried;
    }
    store(task.d_decays + j, load(task.d_decays + j) + d_decay);
  }
}

}  // namespace
}  // namespace bridle
