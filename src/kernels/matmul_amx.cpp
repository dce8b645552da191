// See matmul_amx.h.
#include "kernels/matmul_amx.h"

#include "kernels/tile_words.h"

namespace bridle::amx {
namespace {

constexpr int64_t kTilePairs = kTile * kTile;
constexpr int64_t kRowBytes = 64;  // of a tile
constexpr int64_t kLineBytes = 64;

// Not std::min: a template instantiated here could serve the rest of the library with these instructions.
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

__mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count <= 0 ? 0u : (1u << smaller(count, kTile)) - 1u);
}

// Two runs of up to 16 elements side by side as bfloat16, zero where masked.
__m512i load_two(const uint16_t* low, __mmask16 low_mask, const uint16_t* high, __mmask16 high_mask) {
  const __m512i half = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(low_mask, low));
  return _mm512_inserti64x4(half, _mm256_maskz_loadu_epi16(high_mask, high), 1);
}

__m512i load_two(const float* low, __mmask16 low_mask, const float* high, __mmask16 high_mask) {
  const __m512 a = _mm512_maskz_loadu_ps(low_mask, low), b = _mm512_maskz_loadu_ps(high_mask, high);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
}

template <class T>
inline void prefetch_run(const T* run) {
  const char* line = reinterpret_cast<const char*>(run);
  _mm_prefetch(line, _MM_HINT_T0);
  if constexpr (sizeof(T) * kBlock > kLineBytes) _mm_prefetch(line + kLineBytes, _MM_HINT_T0);
}

inline void load_tile(const uint32_t* tile, __m512i (&r)[kTile]) {
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i) r[i] = _mm512_load_si512(tile + i * kTile);
}

inline void store_tile(uint32_t* tile, const __m512i (&r)[kTile]) {
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i) _mm512_store_si512(tile + i * kTile, r[i]);
}

// The part of a factor that a pair of tiles holds, and perhaps more.
template <class T>
struct Patch {
  const T* data;
  int64_t lines, depth, stride;
};

// Two tiles [line][pair], or [pair][line] if transposed.
template <bool transposed, class T>
void pack_along_depth(const Patch<T>& patch, uint32_t* packed) {
  const __mmask16 low = first_lanes(patch.depth), high = first_lanes(patch.depth - kTile);
  for (int64_t first = 0; first < kBlock; first += kTile, packed += kTilePairs) {
    __m512i r[kTile];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) {
      const T* line = patch.data + (first + i) * patch.stride;
      r[i] = first + i < patch.lines ? load_two(line, low, line + kTile, high) : _mm512_setzero_si512();
    }
    if constexpr (transposed) transpose_words(r);
    store_tile(packed, r);
  }
}

// Two tiles [pair][line], or [line][pair] if transposed. Both at once, because they share cache lines that a
// stride of a power of two would drive out of the cache again; for the same reason the next step's are asked
// for here.
template <bool transposed, class T>
void pack_along_lines(const Patch<T>& patch, uint32_t* packed) {
  const __mmask16 low = first_lanes(patch.lines), high = first_lanes(patch.lines - kTile), none = 0;
  for (int64_t i = 0; i < kTile; ++i) {
    const T *even = patch.data + 2 * i * patch.stride, *odd = even + patch.stride;
    const bool has_even = 2 * i < patch.depth, has_odd = 2 * i + 1 < patch.depth;
    const __m512i first = load_two(even, has_even ? low : none, odd, has_odd ? low : none);
    const __m512i second = load_two(even + kTile, has_even ? high : none, odd + kTile, has_odd ? high : none);
    _mm512_store_si512(packed + i * kTile, interleave(first));
    _mm512_store_si512(packed + kTilePairs + i * kTile, interleave(second));
    if (2 * i + kStep + 1 < patch.depth) {
      prefetch_run(even + kStep * patch.stride);
      prefetch_run(odd + kStep * patch.stride);
    }
  }
  if constexpr (!transposed) return;
  for (int64_t tile = 0; tile < 2; ++tile) {
    __m512i r[kTile];
    load_tile(packed + tile * kTilePairs, r);
    transpose_words(r);
    store_tile(packed + tile * kTilePairs, r);
  }
}

template <class T, bool along_depth, bool transposed>
void pack_block(const Factor& factor, int64_t line, int64_t start, int64_t steps, uint32_t* packed) {
  const int64_t line_stride = along_depth ? factor.stride : 1, depth_stride = along_depth ? 1 : factor.stride;
  const T* data = static_cast<const T*>(factor.data) + line * line_stride;
  for (int64_t step = 0; step < steps; ++step, packed += kPairsPerStep) {
    const int64_t term = start + step * kStep;
    const Patch<T> patch{data + term * depth_stride, factor.lines - line, factor.depth - term, factor.stride};
    if constexpr (along_depth) {
      pack_along_depth<transposed>(patch, packed);
    } else {
      pack_along_lines<transposed>(patch, packed);
    }
  }
}

template <class T>
void pack_from(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps,
               uint32_t* packed) {
  if (factor.along_depth && side == Side::left)
    return pack_block<T, true, false>(factor, line, start, steps, packed);
  if (factor.along_depth) return pack_block<T, true, true>(factor, line, start, steps, packed);
  if (side == Side::left) return pack_block<T, false, true>(factor, line, start, steps, packed);
  pack_block<T, false, false>(factor, line, start, steps, packed);
}

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {kRowBytes, kRowBytes, kRowBytes, kRowBytes,
                            kRowBytes, kRowBytes, kRowBytes, kRowBytes};
  uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};
const TileConfiguration kConfiguration;  // GCC 12 drops the writes to one on the stack

// GCC 12's tile loads do not tell the compiler that they read memory.
inline void finish_writes() { asm volatile("" ::: "memory"); }

__m512 load_addend(const float* data, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, data); }
__m512 load_addend(const uint16_t* data, __mmask16 mask) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, data)), 16));
}

// A row of 32 results, one or two whole cache lines at a time.
void store_row(float* out, __mmask16 low_mask, __mmask16 high_mask, __m512 low, __m512 high) {
  _mm512_mask_storeu_ps(out, low_mask, low);
  _mm512_mask_storeu_ps(out + kTile, high_mask, high);
}
void store_row(uint16_t* out, __mmask16 low_mask, __mmask16 high_mask, __m512 low, __m512 high) {
  const __m512i row = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  _mm512_mask_storeu_epi16(out, _mm512_kunpackw(high_mask, low_mask), row);
}

// The left half of a row of a block of results; the right half lies kTilePairs behind.
template <class Float>
Float* row_of(Float* sums, int64_t row) {
  return sums + row / kTile * 2 * kTilePairs + row % kTile * kTile;
}

template <class T, class Addend>
void write_as(const float* sums, const Target& target, int64_t row, int64_t column) {
  const __m512 factor = _mm512_set1_ps(target.factor), scale = _mm512_set1_ps(target.scale);
  const __mmask16 low_mask = first_lanes(target.columns - column);
  const __mmask16 high_mask = first_lanes(target.columns - column - kTile);
  T* out = static_cast<T*>(target.data) + row * target.stride + column;
  const Addend* addend = static_cast<const Addend*>(target.addend);
  if (addend != nullptr) addend += row * target.addend_stride + column;
  for (int64_t i = 0; i < smaller(kBlock, target.rows - row); ++i, out += target.stride) {
    const float* line = row_of(sums, i);
    __m512 low = _mm512_mul_ps(_mm512_load_ps(line), factor);
    __m512 high = _mm512_mul_ps(_mm512_load_ps(line + kTilePairs), factor);
    if (addend != nullptr) {
      low = _mm512_fmadd_ps(load_addend(addend, low_mask), scale, low);
      high = _mm512_fmadd_ps(load_addend(addend + kTile, high_mask), scale, high);
      addend += target.addend_stride;
    }
    store_row(out, low_mask, high_mask, low, high);
  }
}

}  // namespace

void pack(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps, uint32_t* packed) {
  if (factor.element == Element::float32) return pack_from<float>(factor, side, line, start, steps, packed);
  pack_from<uint16_t>(factor, side, line, start, steps, packed);
}

TileScope::TileScope() { _tile_loadconfig(&kConfiguration); }
TileScope::~TileScope() { _tile_release(); }

void multiply(const uint32_t* left, const uint32_t* right, int64_t steps, bool accumulate, float* sums) {
  finish_writes();
  if (accumulate) {
    _tile_loadd(0, sums, kRowBytes);
    _tile_loadd(1, sums + kTilePairs, kRowBytes);
    _tile_loadd(2, sums + 2 * kTilePairs, kRowBytes);
    _tile_loadd(3, sums + 3 * kTilePairs, kRowBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step, left += kPairsPerStep, right += kPairsPerStep) {
    _tile_loadd(4, left, kRowBytes);
    _tile_loadd(6, right, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + kTilePairs, kRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left + kTilePairs, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kTilePairs, kRowBytes);
  _tile_stored(2, sums + 2 * kTilePairs, kRowBytes);
  _tile_stored(3, sums + 3 * kTilePairs, kRowBytes);
}

void transpose(float* sums) {
  __m512i r[4][kTile];
  for (int64_t tile = 0; tile < 4; ++tile) {
    for (int64_t i = 0; i < kTile; ++i) r[tile][i] = _mm512_load_si512(sums + tile * kTilePairs + i * kTile);
    transpose_words(r[tile]);
  }
  for (int64_t tile = 0; tile < 4; ++tile) {
    const int64_t mirror = tile % 2 * 2 + tile / 2;
    for (int64_t i = 0; i < kTile; ++i)
      _mm512_store_si512(sums + mirror * kTilePairs + i * kTile, r[tile][i]);
  }
}

void write(const float* sums, const Target& target, int64_t row, int64_t column) {
  const bool narrow_addend = target.addend_element == Element::bfloat16;
  if (target.element == Element::float32) {
    return narrow_addend ? write_as<float, uint16_t>(sums, target, row, column)
                         : write_as<float, float>(sums, target, row, column);
  }
  return narrow_addend ? write_as<uint16_t, uint16_t>(sums, target, row, column)
                       : write_as<uint16_t, float>(sums, target, row, column);
}

void pack_left(const float* sums, uint32_t* packed) {
  for (int64_t i = 0; i < kBlock; ++i) {
    const float* row = row_of(sums, i);
    const __m512i pairs =
        reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_load_ps(row + kTilePairs), _mm512_load_ps(row)));
    _mm512_store_si512(packed + i * kTile, pairs);
  }
}

void transpose(const uint32_t* left, uint32_t* right) {
  for (int64_t tile = 0; tile < 2; ++tile, left += kTilePairs, right += kTilePairs) {
    __m512i r[kTile];
    load_tile(left, r);
    transpose_words(r);
    store_tile(right, r);
  }
}

void add_left(const uint32_t* packed, float scale, float factor, float* sums) {
  const __m512 scales = _mm512_set1_ps(scale), factors = _mm512_set1_ps(factor);
  const auto* line = reinterpret_cast<const uint16_t*>(packed);
  for (int64_t i = 0; i < kBlock; ++i, line += kBlock) {
    float* row = row_of(sums, i);
    for (int64_t tile = 0; tile < 2; ++tile, row += kTilePairs) {
      const __m512 addend = _mm512_mul_ps(load_addend(line + tile * kTile, first_lanes(kTile)), scales);
      _mm512_store_ps(row, _mm512_fmadd_ps(_mm512_load_ps(row), factors, addend));
    }
  }
}

void add_right(const uint32_t* packed, float scale, float factor, float* sums) {
  const __m512 scales = _mm512_set1_ps(scale), factors = _mm512_set1_ps(factor);
  for (int64_t pair = 0; pair < kTile; ++pair) {
    float *even = row_of(sums, 2 * pair), *odd = even + kTile;
    for (int64_t tile = 0; tile < 2; ++tile, even += kTilePairs, odd += kTilePairs) {
      const __m512i words = _mm512_load_si512(packed + tile * kTilePairs + pair * kTile);
      const __m512 low = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
      const __m512 high = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(~0xffff)));
      _mm512_store_ps(even, _mm512_fmadd_ps(_mm512_load_ps(even), factors, _mm512_mul_ps(low, scales)));
      _mm512_store_ps(odd, _mm512_fmadd_ps(_mm512_load_ps(odd), factors, _mm512_mul_ps(high, scales)));
    }
  }
}

double trace(const float* sums) {
  double sum = 0.0;
  for (int64_t i = 0; i < kBlock; ++i)
    sum += static_cast<double>(row_of(sums, i)[i / kTile * kTilePairs + i % kTile]);
  return sum;
}

void add_up(const float* blocks, int64_t count, int64_t stride, float factor, float* sums) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < kSums; i += kTile) {
    __m512 sum = _mm512_load_ps(blocks + i);
    for (int64_t block = 1; block < count; ++block)
      sum = _mm512_add_ps(sum, _mm512_load_ps(blocks + block * stride + i));
    _mm512_store_ps(sums + i, _mm512_mul_ps(sum, factors));
  }
}

}  // namespace bridle::amx
