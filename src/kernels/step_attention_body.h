// Causal attention of one head, forward and backward, in strips of 32 rows of logits: memory grows with the length, not with its
// square, and what is masked is not computed. Backward, weights are made again from the saved logarithms of sums.
#pragma once

#include <cmath>

#include "kernels/dropout_hash.h"
#include "kernels/step_kernels.h"
#include "kernels/tiles_body.h"

namespace bridle {
namespace {

// Memory of a task, given out in pieces of whole cache lines.
class Pieces {
 public:
  explicit Pieces(void* memory) : next_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(next_);
    next_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return piece;
  }

 private:
  char* next_;
};

// Tokens as lines: what a token's vector is multiplied with.
void pack_tokens(const uint16_t* data, int64_t stride, int64_t rows, int64_t size, uint32_t* packed) {
  const Factor factor{data, Element::bfloat16, true, rows, size, stride};
  const int64_t steps = padded(size) / kStep;
  for (int64_t line = 0; line < rows; line += kBlock)
    pack_lines(factor, Side::right, line, 0, steps, packed + line / kBlock * steps * kPairsPerStep);
}

// Entries of tokens' vectors as lines: sums over tokens.
void pack_entries(const uint16_t* data, int64_t stride, int64_t rows, int64_t size, uint32_t* packed) {
  const Factor factor{data, Element::bfloat16, false, size, rows, stride};
  const int64_t steps = rows / kStep;
  for (int64_t line = 0; line < size; line += kBlock)
    pack_lines(factor, Side::right, line, 0, steps, packed + line / kBlock * steps * kPairsPerStep);
}

// Up to 32 numbers of a block's row, scaled, where only `count` of them belong to this head.
BRIDLE_INLINE void store_part(uint16_t* out, const float* values, float factor, int64_t count) {
  if (count >= kBlock) {
    store(out, load(values) * factor);
    store(out + kLanes, load(values + kLanes) * factor);
    return;
  }
  uint16_t part[kBlock];
  store(part, load(values) * factor);
  store(part + kLanes, load(values + kLanes) * factor);
  std::memcpy(out, part, static_cast<size_t>(count) * sizeof(uint16_t));
}

// rows [32, terms]·packed entries → out [32, size], row i times factors[i].
void weighted_sum(const uint16_t* weights, int64_t weights_stride, const uint32_t* packed,
                  int64_t packed_steps, int64_t steps, const float* factors, uint16_t* out,
                  int64_t out_stride, int64_t size) {
  alignas(64) float sums[kBlock * kBlock];
  for (int64_t column = 0; column < size; column += kBlock) {
    multiply(rows_at(weights, weights_stride), packed + column / kBlock * packed_steps * kPairsPerStep, steps,
             false, sums, kBlock);
    for (int64_t i = 0; i < kBlock; ++i)
      store_part(out + i * out_stride + column, sums + i * kBlock, factors[i], size - column);
  }
}

// 32 rows of products with the tokens of the first so many blocks.
BRIDLE_INLINE void strip_of_products(const uint16_t* rows, int64_t stride, const uint32_t* tokens,
                                     int64_t steps, int64_t blocks, float* out, int64_t out_stride) {
  for (int64_t j = 0; j < blocks; ++j)
    multiply(rows_at(rows, stride), tokens + j * steps * kPairsPerStep, steps, false, out + j * kBlock,
             out_stride);
}

// The logits of a token, from its products with all tokens before it, in units of ln 2: what 2 is raised to.
struct LogitRow {
  const float* products;
  const float* bias;  // null: none
  float scale;
  int64_t token;

  BRIDLE_INLINE LogitRow(const AttentionTask& task, const float* row, int64_t which)
      : products(row),
        bias(task.bias == nullptr ? nullptr : task.bias + task.rows - 1 - which),
        scale(task.scale * kLog2e),
        token(which) {}

  // Of tokens j … j + 15; −∞ for those that come later.
  BRIDLE_INLINE Floats at(int64_t j) const {
    Floats x = load(products + j) * scale;
    if (bias != nullptr) x = x + load(bias + j) * kLog2e;
    if (j + kLanes - 1 <= token) return x;
    return count_up(static_cast<int32_t>(j)) > static_cast<int32_t>(token) ? splat(-INFINITY) : x;
  }
};

// 1, or what dropout multiplies the weights of tokens j … j + 15 with.
struct Kept {
  uint32_t row = 0, threshold;
  float scale;

  BRIDLE_INLINE Kept(const AttentionTask& task, int64_t token)
      : threshold(task.drop_threshold), scale(task.drop_scale) {
    if (threshold != 0) row = dropout_row(task.drop_key, static_cast<uint64_t>(task.drop_row + token));
  }
  BRIDLE_INLINE Floats at(Floats x, int64_t j) const {
    if (threshold == 0) return x;
    const auto columns = reinterpret_cast<Words>(count_up(static_cast<int32_t>(j)));
    return dropout_hash(row, columns) < threshold ? splat(0.0F) : x * scale;
  }
};

BRIDLE_INLINE int64_t to_vectors(int64_t row) {
  return (row + kLanes) / kLanes * kLanes;
}  // past token `row`

void attend(const AttentionTask& task) {
  const TileScope tiles;
  const int64_t size = padded(task.head_size), steps = size / kStep, stride = task.rows + kBlock;
  Pieces pieces(task.scratch);
  auto* keys = pieces.take<uint32_t>(packed_size(task.rows, size));
  auto* values = pieces.take<uint32_t>(packed_size(task.rows, size));
  auto* logits = pieces.take<float>(kBlock * stride);
  auto* weights = pieces.take<uint16_t>(kBlock * stride);
  pack_tokens(task.k, task.stride, task.rows, task.head_size, keys);
  pack_entries(task.v, task.stride, task.rows, task.head_size, values);
  float factors[kBlock];
  for (int64_t top = 0; top < task.rows; top += kBlock) {
    const int64_t blocks = top / kBlock + 1;
    strip_of_products(task.q + top * task.stride, task.stride, keys, steps, blocks, logits, stride);
    for (int64_t i = 0; i < kBlock; ++i) {
      const LogitRow row(task, logits + i * stride, top + i);
      const Kept kept(task, top + i);
      const int64_t end = to_vectors(top + i);
      Floats largest = splat(-INFINITY);
      for (int64_t j = 0; j < end; j += kLanes) largest = larger(largest, row.at(j));
      const float most = largest_of(largest);
      Floats total = splat(0.0F);
      for (int64_t j = 0; j < end; j += kLanes) {
        const Floats weight = power_of_two<5>(row.at(j) - most);
        store(weights + i * stride + j, kept.at(weight, j));
        total = total + weight;
      }
      for (int64_t j = end; j < blocks * kBlock; j += kLanes) store(weights + i * stride + j, splat(0.0F));
      const float sum = sum_of(total);
      factors[i] = 1.0F / sum;
      task.log_sums[top + i] = most * kLn2 + std::log(sum);
    }
    weighted_sum(weights, stride, values, task.rows / kStep, blocks, factors,
                 task.out + top * task.out_stride, task.out_stride, task.head_size);
  }
}

// Σ out·d_out of one token.
BRIDLE_INLINE float row_product(const AttentionTask& task, int64_t row) {
  const uint16_t *a = task.out + row * task.out_stride, *b = task.d_out + row * task.out_stride;
  const int64_t whole = task.head_size / kLanes * kLanes;
  Floats total = splat(0.0F);
  for (int64_t j = 0; j < whole; j += kLanes) total = total + load(a + j) * load(b + j);
  float sum = sum_of(total);
  for (int64_t j = whole; j < task.head_size; ++j) {
    uint32_t first = uint32_t{a[j]} << 16, second = uint32_t{b[j]} << 16;
    float x, y;
    std::memcpy(&x, &first, 4);
    std::memcpy(&y, &second, 4);
    sum += x * y;
  }
  return sum;
}

// Of one token: weights and the logits' gradients, zero from the next token to `end`.
BRIDLE_INLINE void weights_and_slopes(const AttentionTask& task, const LogitRow& row, const float* products,
                                      uint16_t* weights, uint16_t* slopes, int64_t end) {
  const float mean = row_product(task, row.token);
  const float log_sum = task.log_sums[row.token] * kLog2e;
  float* d_bias = task.d_bias == nullptr ? nullptr : task.d_bias + task.rows - 1 - row.token;
  const int64_t used = to_vectors(row.token);
  const Kept kept(task, row.token);
  for (int64_t j = 0; j < used; j += kLanes) {
    const Floats weight = power_of_two<5>(row.at(j) - log_sum);
    const Floats slope = weight * (kept.at(load(products + j), j) - mean);
    store(weights + j, kept.at(weight, j));
    store(slopes + j, slope);
    if (d_bias != nullptr) store(d_bias + j, load(d_bias + j) + slope);
  }
  for (int64_t j = used; j < end; j += kLanes) {
    store(weights + j, splat(0.0F));
    store(slopes + j, splat(0.0F));
  }
}

// sums [keys, size] += weightsᵀ·vectors over the rows of a strip.
void add_turned(const uint16_t* weights, int64_t stride, int64_t rows, int64_t blocks,
                const uint32_t* vectors, int64_t size, float* sums, uint32_t* turned) {
  const int64_t steps = rows / kStep;
  const Factor factor{weights, Element::bfloat16, false, blocks * kBlock, rows, stride};
  for (int64_t block = 0; block < blocks; ++block) {
    pack_lines(factor, Side::left, block * kBlock, 0, steps, turned);
    for (int64_t column = 0; column < size; column += kBlock)
      multiply(packed_rows(turned), vectors + column / kBlock * steps * kPairsPerStep, steps, true,
               sums + block * kBlock * size + column, size);
  }
}

void store_sums(const float* sums, int64_t rows, int64_t size, float factor, uint16_t* out, int64_t stride,
                int64_t head_size) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < head_size; column += kBlock)
      store_part(out + row * stride + column, sums + row * size + column, factor, head_size - column);
}

void attend_backward(const AttentionTask& task) {
  const TileScope tiles;
  const int64_t size = padded(task.head_size), steps = size / kStep, stride = task.rows + kBlock;
  Pieces pieces(task.scratch);
  auto* keys = pieces.take<uint32_t>(packed_size(task.rows, size));
  auto* key_entries = pieces.take<uint32_t>(packed_size(task.rows, size));
  auto* values = pieces.take<uint32_t>(packed_size(task.rows, size));
  auto* strip_q = pieces.take<uint32_t>(packed_size(kStripRows, size));
  auto* strip_d = pieces.take<uint32_t>(packed_size(kStripRows, size));
  auto* turned = pieces.take<uint32_t>(packed_size(kStripRows, kBlock));
  auto* logits = pieces.take<float>(kBlock * stride);
  auto* products = pieces.take<float>(kBlock * stride);
  auto* weights = pieces.take<uint16_t>(kStripRows * stride);
  auto* slopes = pieces.take<uint16_t>(kStripRows * stride);
  auto* dk = pieces.take<float>(task.rows * size);
  auto* dv = pieces.take<float>(task.rows * size);
  pack_tokens(task.k, task.stride, task.rows, task.head_size, keys);
  pack_entries(task.k, task.stride, task.rows, task.head_size, key_entries);
  pack_tokens(task.v, task.stride, task.rows, task.head_size, values);
  if (!task.add_keys) {
    std::memset(dk, 0, static_cast<size_t>(task.rows * size) * sizeof(float));
    std::memset(dv, 0, static_cast<size_t>(task.rows * size) * sizeof(float));
  }
  float factors[kBlock];
  for (float& factor : factors) factor = task.scale;
  for (int64_t strip = 0; strip < task.rows; strip += kStripRows) {
    const int64_t rows = task.rows - strip < kStripRows ? task.rows - strip : kStripRows;
    const int64_t strip_blocks = (strip + rows) / kBlock;
    for (int64_t top = strip; top < strip + rows; top += kBlock) {
      const int64_t blocks = top / kBlock + 1;
      uint16_t *own_weights = weights + (top - strip) * stride, *own_slopes = slopes + (top - strip) * stride;
      strip_of_products(task.q + top * task.stride, task.stride, keys, steps, blocks, logits, stride);
      strip_of_products(task.d_out + top * task.out_stride, task.out_stride, values, steps, blocks, products,
                        stride);
      for (int64_t i = 0; i < kBlock; ++i) {
        weights_and_slopes(task, LogitRow(task, logits + i * stride, top + i), products + i * stride,
                           own_weights + i * stride, own_slopes + i * stride, strip_blocks * kBlock);
      }
      weighted_sum(own_slopes, stride, key_entries, task.rows / kStep, blocks, factors,
                   task.dq + top * task.stride, task.stride, task.head_size);
    }
    pack_entries(task.q + strip * task.stride, task.stride, rows, task.head_size, strip_q);
    pack_entries(task.d_out + strip * task.out_stride, task.out_stride, rows, task.head_size, strip_d);
    add_turned(slopes, stride, rows, strip_blocks, strip_q, size, dk, turned);
    add_turned(weights, stride, rows, strip_blocks, strip_d, size, dv, turned);
  }
  store_sums(dk, task.rows, size, task.scale, task.dk, task.stride, task.head_size);
  store_sums(dv, task.rows, size, 1.0F, task.dv, task.stride, task.head_size);
}

// A pair is (x_i, x_{i + half}) of a head.
void rope(const RopeTask& task) {
  const int64_t half = task.head_size / 2, whole = half / kLanes * kLanes;
  for (int64_t row = 0; row < task.rows; ++row) {
    const float *cosine = task.cosine + row * half, *sine = task.sine + row * half;
    for (int64_t head = 0; head < task.heads; ++head) {
      uint16_t* first = task.data + row * task.stride + head * task.head_size;
      uint16_t* second = first + half;
      for (int64_t i = 0; i < whole; i += kLanes) {
        const Floats a = load(first + i), b = load(second + i);
        const Floats c = load(cosine + i), s = load(sine + i) * task.direction;
        store(first + i, a * c - b * s);
        store(second + i, b * c + a * s);
      }
      if (whole == half) continue;
      uint16_t rest[2][kLanes] = {};
      float turn[2][kLanes] = {};
      const auto count = static_cast<size_t>(half - whole);
      std::memcpy(rest[0], first + whole, count * 2);
      std::memcpy(rest[1], second + whole, count * 2);
      std::memcpy(turn[0], cosine + whole, count * 4);
      std::memcpy(turn[1], sine + whole, count * 4);
      const Floats a = load(rest[0]), b = load(rest[1]), c = load(turn[0]),
                   s = load(turn[1]) * task.direction;
      store(rest[0], a * c - b * s);
      store(rest[1], b * c + a * s);
      std::memcpy(first + whole, rest[0], count * 2);
      std::memcpy(second + whole, rest[1], count * 2);
    }
  }
}

}  // namespace
}  // namespace bridle
