// Registers of 16 words, of two bfloat16 each, on their way into tiles. For files that are compiled for AVX-512 only.
#pragma once

#include <cstdint>

// GCC 12 warns of the undefined operands inside its own AVX-512 intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace bridle::amx {
namespace {

constexpr int64_t kTile = 16;

// The halves' elements in turn: 0, 16, 1, 17, …
inline __m512i interleave(__m512i halves) {
  const __m512i order = _mm512_add_epi32(
      _mm512_set1_epi32(16 << 16),
      _mm512_mullo_epi32(_mm512_set1_epi32(0x10001),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
  return _mm512_permutexvar_epi16(order, halves);
}

// 16×16 words of 32 bits: within quarters of registers first, then the quarters among registers.
inline void transpose_words(__m512i (&r)[kTile]) {
  __m512i t[kTile], u[kTile];
#pragma GCC unroll 8
  for (int i = 0; i < kTile; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTile; i += 4) {
    u[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    u[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    u[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    u[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i even_top = _mm512_shuffle_i32x4(u[i], u[i + 4], 0x88);
    const __m512i even_bottom = _mm512_shuffle_i32x4(u[i + 8], u[i + 12], 0x88);
    const __m512i odd_top = _mm512_shuffle_i32x4(u[i], u[i + 4], 0xdd);
    const __m512i odd_bottom = _mm512_shuffle_i32x4(u[i + 8], u[i + 12], 0xdd);
    r[i] = _mm512_shuffle_i32x4(even_top, even_bottom, 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(odd_top, odd_bottom, 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(even_top, even_bottom, 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(odd_top, odd_bottom, 0xdd);
  }
}

}  // namespace
}  // namespace bridle::amx
