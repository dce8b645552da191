// Lines of a factor on their way into tiles of pairs of bfloat16 (matmul_amx.h says which), for files that are compiled for
// AVX-512, with its bfloat16 instructions or without them.
#pragma once

#include "kernels/matmul_amx.h"
#include "kernels/tile_words.h"

namespace bridle::amx {
namespace {

constexpr int64_t kTilePairs = kTile * kTile;
constexpr int64_t kLineBytes = 64;

// Not std::min: a template instantiated here could serve the rest of the library with these instructions.
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count <= 0 ? 0u : (1u << smaller(count, kTile)) - 1u);
}

// Thirty-two numbers rounded to bfloat16, ties to even; NaN stays NaN.
#if defined(__AVX512BF16__)
inline __m512i narrow_two(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
#else
inline __m256i narrow_one(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i upper = _mm512_srli_epi32(rounded, 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(upper, nan, _mm512_set1_epi32(0x7fc0)));
}
inline __m512i narrow_two(__m512 low, __m512 high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(narrow_one(low)), narrow_one(high), 1);
}
#endif

// Two runs of up to 16 elements side by side as bfloat16, zero where masked.
inline __m512i load_two(const uint16_t* low, __mmask16 low_mask, const uint16_t* high, __mmask16 high_mask) {
  const __m512i half = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(low_mask, low));
  return _mm512_inserti64x4(half, _mm256_maskz_loadu_epi16(high_mask, high), 1);
}

inline __m512i load_two(const float* low, __mmask16 low_mask, const float* high, __mmask16 high_mask) {
  return narrow_two(_mm512_maskz_loadu_ps(low_mask, low), _mm512_maskz_loadu_ps(high_mask, high));
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

}  // namespace
}  // namespace bridle::amx
