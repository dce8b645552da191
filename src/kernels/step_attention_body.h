// Causal attention of one head, forward and backward, in strips of 32 rows of logits: memory grows with the length, not with its
// square, and blocks that are masked, later ones and those before a document or a window, are not computed. Backward, weights are made again from the saved logarithms of sums.
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
void pack_tokens(const Value* data, int64_t stride, int64_t rows, int64_t size, uint32_t* packed) {
  const Factor factor{data, kElement, true, rows, size, stride};
  const int64_t steps = padded(size) / kStep;
  for (int64_t line = 0; line < rows; line += kBlock)
    pack_lines(factor, Side::right, line, 0, steps, packed + line / kBlock * steps * kStepWords);
}

// Entries of tokens' vectors as lines: sums over tokens.
void pack_entries(const Value* data, int64_t stride, int64_t rows, int64_t size, uint32_t* packed) {
  const Factor factor{data, kElement, false, size, rows, stride};
  const int64_t steps = rows / kStep;
  for (int64_t line = 0; line < size; line += kBlock)
    pack_lines(factor, Side::right, line, 0, steps, packed + line / kBlock * steps * kStepWords);
}

// Up to 32 numbers of a block's row, scaled, where only `count` of them belong to this head.
BRIDLE_INLINE void store_part(Value* out, const float* values, float factor, int64_t count) {
  if (count >= kBlock) {
    store(out, load(values) * factor);
    store(out + kLanes, load(values + kLanes) * factor);
    return;
  }
  Value part[kBlock];
  store(part, load(values) * factor);
  store(part + kLanes, load(values + kLanes) * factor);
  std::memcpy(out, part, static_cast<size_t>(count) * sizeof(Value));
}

// rows [32, terms]·packed entries → out [32, size], row i times factors[i]; terms of blocks [first, end).
void weighted_sum(const Value* weights, int64_t weights_stride, const uint32_t* packed, int64_t packed_steps,
                  int64_t first, int64_t end, const float* factors, Value* out, int64_t out_stride,
                  int64_t size) {
  alignas(64) float sums[kBlock * kBlock];
  for (int64_t column = 0; column < size; column += kBlock) {
    multiply(rows_at(weights + first * kBlock, weights_stride),
             packed + (column / kBlock * packed_steps + first) * kStepWords, end - first, false, sums,
             kBlock);
    for (int64_t i = 0; i < kBlock; ++i)
      store_part(out + i * out_stride + column, sums + i * kBlock, factors[i], size - column);
  }
}

// 32 rows of products with the tokens of blocks [first, end).
BRIDLE_INLINE void strip_of_products(const Value* rows, int64_t stride, const uint32_t* tokens, int64_t steps,
                                     int64_t first, int64_t end, float* out, int64_t out_stride) {
  for (int64_t j = first; j < end; ++j)
    multiply(rows_at(rows, stride), tokens + j * steps * kStepWords, steps, false, out + j * kBlock,
             out_stride);
}

// The logits of a token, from its products with all tokens before it, in units of ln 2: what 2 is raised to.
struct LogitRow {
  const float* products;
  const float* bias;  // null: none
  float scale;
  int64_t token, begin;

  BRIDLE_INLINE LogitRow(const AttentionTask& task, const float* row, int64_t which)
      : products(row),
        bias(task.bias == nullptr ? nullptr : task.bias + task.rows - 1 - which),
        scale(task.scale * kLog2e),
        token(which),
        begin(task.sees.begin(which)) {}

  BRIDLE_INLINE int64_t first() const { return begin / kLanes * kLanes; }  // in whole vectors

  // Of tokens j … j + 15; −∞ for those that are not seen.
  BRIDLE_INLINE Floats at(int64_t j) const {
    Floats x = load(products + j) * scale;
    if (bias != nullptr) x = x + load(bias + j) * kLog2e;
    if (j >= begin && j + kLanes - 1 <= token) return x;
    const Ints places = count_up(static_cast<int32_t>(j));
    x = places < static_cast<int32_t>(begin) ? splat(-INFINITY) : x;
    return places > static_cast<int32_t>(token) ? splat(-INFINITY) : x;
  }
};

// 1, or what dropout multiplies the weights of tokens j … j + 15 with.
struct Kept {
  uint32_t row = 0, threshold;
  float scale;

  BRIDLE_INLINE Kept(const AttentionTask& task, int64_t token)
      : threshold(task.drop.threshold), scale(task.drop.scale) {
    if (threshold != 0) row = dropout_row(task.drop.key, static_cast<uint64_t>(task.drop_row + token));
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
  const int64_t value_size = task.size_of_value();
  Pieces pieces(task.scratch);
  auto* keys = pieces.take<uint32_t>(packed_words(task.rows, size));
  auto* values = pieces.take<uint32_t>(packed_words(task.rows, padded(value_size)));
  auto* logits = pieces.take<float>(kBlock * stride);
  auto* weights = pieces.take<Value>(kBlock * stride);
  const auto *q = static_cast<const Value*>(task.q), *k = static_cast<const Value*>(task.k),
             *v = static_cast<const Value*>(task.v);
  auto* out = static_cast<Value*>(task.out);
  pack_tokens(k, task.stride, task.rows, task.head_size, keys);
  pack_entries(v, task.stride_of_values(), task.rows, value_size, values);
  float factors[kBlock];
  for (int64_t top = 0; top < task.rows; top += kBlock) {
    const int64_t blocks = top / kBlock + 1, first_block = task.sees.begin(top) / kBlock;
    strip_of_products(q + top * task.stride, task.stride, keys, steps, first_block, blocks, logits, stride);
    for (int64_t i = 0; i < kBlock; ++i) {
      const LogitRow row(task, logits + i * stride, top + i);
      const Kept kept(task, top + i);
      const int64_t begin = row.first(), end = to_vectors(top + i);
      Floats largest = splat(-INFINITY);
      for (int64_t j = begin; j < end; j += kLanes) largest = larger(largest, row.at(j));
      const float most = largest_of(largest);
      Floats total = splat(0.0F);
      for (int64_t j = first_block * kBlock; j < begin; j += kLanes)
        store(weights + i * stride + j, splat(0.0F));
      for (int64_t j = begin; j < end; j += kLanes) {
        const Floats weight = power_of_two<kTerms>(row.at(j) - most);
        store(weights + i * stride + j, kept.at(weight, j));
        total = total + weight;
      }
      for (int64_t j = end; j < blocks * kBlock; j += kLanes) store(weights + i * stride + j, splat(0.0F));
      const float sum = sum_of(total);
      factors[i] = task.gain / sum;
      task.log_sums[top + i] = most * kLn2 + std::log(sum);
    }
    weighted_sum(weights, stride, values, task.rows / kStep, first_block, blocks, factors,
                 out + top * task.out_stride, task.out_stride, value_size);
  }
}

BRIDLE_INLINE float number(uint16_t value) {
  const uint32_t bits = uint32_t{value} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
BRIDLE_INLINE float number(float value) { return value; }

// Σ out·d_out of one token.
BRIDLE_INLINE float row_product(const AttentionTask& task, int64_t row) {
  const Value *a = static_cast<const Value*>(task.out) + row * task.out_stride,
              *b = static_cast<const Value*>(task.d_out) + row * task.out_stride;
  const int64_t whole = task.head_size / kLanes * kLanes;
  Floats total = splat(0.0F);
  for (int64_t j = 0; j < whole; j += kLanes) total = total + load(a + j) * load(b + j);
  float sum = sum_of(total);
  for (int64_t j = whole; j < task.head_size; ++j) sum += number(a[j]) * number(b[j]);
  return sum;
}

// Of one token: the mean of products under its weights, which is what the gain gets.
BRIDLE_INLINE float mean_product(const AttentionTask& task, const LogitRow& row, const float* products,
                                 float log_sum) {
  const Kept kept(task, row.token);
  Floats total = splat(0.0F);
  for (int64_t j = row.first(); j < to_vectors(row.token); j += kLanes)
    total = total + power_of_two<kTerms>(row.at(j) - log_sum) * kept.at(load(products + j), j);
  const float mean = sum_of(total);
  *task.d_gain += mean;
  return mean;
}

// Of one token: weights and the logits' gradients, zero where it sees nothing from `start` to `end`.
BRIDLE_INLINE void weights_and_slopes(const AttentionTask& task, const LogitRow& row, const float* products,
                                      Value* weights, Value* slopes, int64_t start, int64_t end) {
  const float log_sum = task.log_sums[row.token] * kLog2e, gain = task.gain;
  const bool has_gain = task.d_gain != nullptr;
  const float mean = has_gain ? mean_product(task, row, products, log_sum) : row_product(task, row.token);
  float* d_bias = task.d_bias == nullptr ? nullptr : task.d_bias + task.rows - 1 - row.token;
  const int64_t begin = row.first(), used = to_vectors(row.token);
  const Kept kept(task, row.token);
  for (int64_t j = start; j < begin; j += kLanes) {
    store(weights + j, splat(0.0F));
    store(slopes + j, splat(0.0F));
  }
  Floats along = splat(0.0F);
  for (int64_t j = begin; j < used; j += kLanes) {
    Floats weight = power_of_two<kTerms>(row.at(j) - log_sum);
    if (has_gain) weight = weight * gain;
    const Floats slope = weight * (kept.at(load(products + j), j) - mean);
    store(weights + j, kept.at(weight, j));
    store(slopes + j, slope);
    if (d_bias != nullptr) store(d_bias + j, load(d_bias + j) + slope);
    if (has_gain) along = along + slope * load(row.products + j);
  }
  if (has_gain) *task.d_scale += sum_of(along);
  for (int64_t j = used; j < end; j += kLanes) {
    store(weights + j, splat(0.0F));
    store(slopes + j, splat(0.0F));
  }
}

// sums [keys, size] += weightsᵀ·vectors over the rows of a strip, for keys of blocks [first, blocks).
void add_transposed(const Value* weights, int64_t stride, int64_t rows, int64_t first, int64_t blocks,
                    const uint32_t* vectors, int64_t size, float* sums, uint32_t* transposed) {
  const int64_t steps = rows / kStep;
  const Factor factor{weights, kElement, false, blocks * kBlock, rows, stride};
  for (int64_t block = first; block < blocks; ++block) {
    pack_lines(factor, Side::left, block * kBlock, 0, steps, transposed);
    for (int64_t column = 0; column < size; column += kBlock)
      multiply(packed_rows(transposed), vectors + column / kBlock * steps * kStepWords, steps, true,
               sums + block * kBlock * size + column, size);
  }
}

void store_sums(const float* sums, int64_t rows, int64_t size, float factor, Value* out, int64_t stride,
                int64_t head_size) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < head_size; column += kBlock)
      store_part(out + row * stride + column, sums + row * size + column, factor, head_size - column);
}

void attend_backward(const AttentionTask& task) {
  const TileScope tiles;
  const int64_t size = padded(task.head_size), steps = size / kStep, stride = task.rows + kBlock;
  const int64_t value_size = task.size_of_value(), value_columns = padded(value_size);
  Pieces pieces(task.scratch);
  auto* keys = pieces.take<uint32_t>(packed_words(task.rows, size));
  auto* key_entries = pieces.take<uint32_t>(packed_words(task.rows, size));
  auto* values = pieces.take<uint32_t>(packed_words(task.rows, value_columns));
  auto* strip_q = pieces.take<uint32_t>(packed_words(kStripRows, size));
  auto* strip_d = pieces.take<uint32_t>(packed_words(kStripRows, value_columns));
  auto* transposed = pieces.take<uint32_t>(packed_words(kStripRows, kBlock));
  auto* logits = pieces.take<float>(kBlock * stride);
  auto* products = pieces.take<float>(kBlock * stride);
  auto* weights = pieces.take<Value>(kStripRows * stride);
  auto* slopes = pieces.take<Value>(kStripRows * stride);
  const auto *q = static_cast<const Value*>(task.q), *k = static_cast<const Value*>(task.k),
             *v = static_cast<const Value*>(task.v), *d_out = static_cast<const Value*>(task.d_out);
  pack_tokens(k, task.stride, task.rows, task.head_size, keys);
  pack_entries(k, task.stride, task.rows, task.head_size, key_entries);
  pack_tokens(v, task.stride_of_values(), task.rows, value_size, values);
  float factors[kBlock];
  for (float& factor : factors) factor = task.scale;
  for (int64_t strip = 0; strip < task.rows; strip += kStripRows) {
    const int64_t rows = task.rows - strip < kStripRows ? task.rows - strip : kStripRows;
    const int64_t strip_first = task.sees.begin(strip) / kBlock, strip_blocks = (strip + rows) / kBlock;
    for (int64_t top = strip; top < strip + rows; top += kBlock) {
      const int64_t blocks = top / kBlock + 1, first_block = task.sees.begin(top) / kBlock;
      Value *own_weights = weights + (top - strip) * stride, *own_slopes = slopes + (top - strip) * stride;
      strip_of_products(q + top * task.stride, task.stride, keys, steps, first_block, blocks, logits, stride);
      strip_of_products(d_out + top * task.out_stride, task.out_stride, values, value_columns / kStep,
                        first_block, blocks, products, stride);
      for (int64_t i = 0; i < kBlock; ++i) {
        weights_and_slopes(task, LogitRow(task, logits + i * stride, top + i), products + i * stride,
                           own_weights + i * stride, own_slopes + i * stride, strip_first * kBlock,
                           strip_blocks * kBlock);
      }
      weighted_sum(own_slopes, stride, key_entries, task.rows / kStep, first_block, blocks, factors,
                   static_cast<Value*>(task.dq) + top * task.stride, task.stride, task.head_size);
    }
    pack_entries(q + strip * task.stride, task.stride, rows, task.head_size, strip_q);
    pack_entries(d_out + strip * task.out_stride, task.out_stride, rows, value_size, strip_d);
    add_transposed(slopes, stride, rows, strip_first, strip_blocks, strip_q, size, task.key_sums, transposed);
    add_transposed(weights, stride, rows, strip_first, strip_blocks, strip_d, value_columns, task.value_sums,
                   transposed);
  }
  store_sums(task.key_sums, task.rows, size, task.scale, static_cast<Value*>(task.dk), task.stride,
             task.head_size);
  if (task.dv == nullptr) return;
  store_sums(task.value_sums, task.rows, value_columns, 1.0F, static_cast<Value*>(task.dv),
             task.stride_of_values(), value_size);
}

// Entries i … i + 15 of a head, zero past its end.
BRIDLE_INLINE Floats head_entries(const Value* head, int64_t i, int64_t size) {
  if (i + kLanes <= size) return load(head + i);
  Value part[kLanes] = {};
  std::memcpy(part, head + i, static_cast<size_t>(size - i) * sizeof(Value));
  return load(part);
}

BRIDLE_INLINE void store_entries(Value* head, int64_t i, int64_t size, Floats x) {
  if (i + kLanes <= size) return store(head + i, x);
  Value part[kLanes];
  store(part, x);
  std::memcpy(head + i, part, static_cast<size_t>(size - i) * sizeof(Value));
}

void head_norm(const HeadNormTask& task) {
  const float each = 1.0F / static_cast<float>(task.head_size);
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t h = 0; h < task.heads; ++h) {
      Value* x = static_cast<Value*>(task.data) + row * task.stride + h * task.head_size;
      Floats squares = splat(0.0F);
      for (int64_t i = 0; i < task.head_size; i += kLanes) {
        const Floats own = head_entries(x, i, task.head_size);
        squares = squares + own * own;
      }
      const float square = sum_of(squares) * each + task.epsilon;
      const float inverse = square == 0.0F ? 0.0F : 1.0F / std::sqrt(square);  // rows of padding are zero
      task.inverse[row * task.inverse_stride + h] = inverse;
      for (int64_t i = 0; i < task.head_size; i += kLanes)
        store_entries(x, i, task.head_size, head_entries(x, i, task.head_size) * inverse);
    }
  }
}

void head_norm_backward(const HeadNormTask& task) {
  const float each = 1.0F / static_cast<float>(task.head_size);
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t h = 0; h < task.heads; ++h) {
      const int64_t at = row * task.stride + h * task.head_size;
      const Value* y = static_cast<const Value*>(task.data) + at;
      Value* d = static_cast<Value*>(task.gradient) + at;
      Floats along = splat(0.0F);
      for (int64_t i = 0; i < task.head_size; i += kLanes)
        along = along + head_entries(y, i, task.head_size) * head_entries(d, i, task.head_size);
      const float share = sum_of(along) * each, inverse = task.inverse[row * task.inverse_stride + h];
      for (int64_t i = 0; i < task.head_size; i += kLanes) {
        const Floats own = head_entries(d, i, task.head_size) - head_entries(y, i, task.head_size) * share;
        store_entries(d, i, task.head_size, own * inverse);
      }
    }
  }
}

// A pair is (x_i, x_{i + half}) of a head.
void rope(const RopeTask& task) {
  const int64_t half = task.head_size / 2, whole = half / kLanes * kLanes;
  for (int64_t row = 0; row < task.rows; ++row) {
    const float *cosine = task.cosine + row * half, *sine = task.sine + row * half;
    for (int64_t head = 0; head < task.heads; ++head) {
      Value* first = static_cast<Value*>(task.data) + row * task.stride + head * task.head_size;
      Value* second = first + half;
      for (int64_t i = 0; i < whole; i += kLanes) {
        const Floats a = load(first + i), b = load(second + i);
        const Floats c = load(cosine + i), s = load(sine + i) * task.direction;
        store(first + i, a * c - b * s);
        store(second + i, b * c + a * s);
      }
      if (whole == half) continue;
      Value rest[2][kLanes] = {};
      float rotation[2][kLanes] = {};
      const auto count = static_cast<size_t>(half - whole);
      std::memcpy(rest[0], first + whole, count * sizeof(Value));
      std::memcpy(rest[1], second + whole, count * sizeof(Value));
      std::memcpy(rotation[0], cosine + whole, count * sizeof(float));
      std::memcpy(rotation[1], sine + whole, count * sizeof(float));
      const Floats a = load(rest[0]), b = load(rest[1]), c = load(rotation[0]),
                   s = load(rotation[1]) * task.direction;
      store(rest[0], a * c - b * s);
      store(rest[1], b * c + a * s);
      std::memcpy(first + whole, rest[0], count * sizeof(Value));
      std::memcpy(second + whole, rest[1], count * sizeof(Value));
    }
  }
}

}  // namespace
}  // namespace bridle
