// See newton_schulz_panel.h; compiled once for each instruction set by the files that include this one. While AMX's tiles multiply a
// block, the vectors finish the one before.
#pragma once

#include "kernels/newton_schulz_panel.h"
#include "kernels/tile_words.h"
#include "kernels/tiles_body.h"

namespace bridle::amx {
namespace {

BRIDLE_INLINE __m512i narrow(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// A block whose product is done.
struct Pending {
  const float* sums = nullptr;    // 32 rows of 32
  const uint32_t* old = nullptr;  // the block before the step, as right factor
  uint32_t* x = nullptr;          // where it goes
  uint32_t *left = nullptr, *right = nullptr;
  int64_t next = kTile;  // pair of rows

  BRIDLE_INLINE void finish_pair(__m512 a, __m512 factor) {
    const float *even = sums + 2 * next * kBlock, *odd = even + kBlock;
    __m512 rows[2][2];
    for (int64_t tile = 0; tile < 2; ++tile) {
      const int64_t at = tile * kTilePairs + next * kTile;
      const __m512i words = _mm512_load_si512(old + at);
      const __m512 low = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
      const __m512 high = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(~0xffff)));
      rows[0][tile] = _mm512_fmadd_ps(_mm512_load_ps(even + tile * kTile), factor, _mm512_mul_ps(low, a));
      rows[1][tile] = _mm512_fmadd_ps(_mm512_load_ps(odd + tile * kTile), factor, _mm512_mul_ps(high, a));
      _mm512_store_si512(x + at, interleave(narrow(rows[0][tile], rows[1][tile])));
    }
    for (int64_t row = 0; row < 2; ++row)
      _mm512_store_si512(left + (2 * next + row) * kTile, narrow(rows[row][0], rows[row][1]));
    ++next;
    if (next % (kTile / 2) == 0) turn_tile(next / (kTile / 2) - 1);
  }

  BRIDLE_INLINE void turn_tile(int64_t tile) {
    __m512i r[kTile];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) r[i] = _mm512_load_si512(left + tile * kTilePairs + i * kTile);
    transpose_words(r);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) _mm512_store_si512(right + tile * kTilePairs + i * kTile, r[i]);
  }

  BRIDLE_INLINE void finish(__m512 a, __m512 factor, int64_t pairs) {
    for (; pairs > 0 && next < kTile; --pairs) finish_pair(a, factor);
  }
};

void apply_panel_here(const PanelTask& given) {
  alignas(64) float sums[2][kBlock * kBlock];
  const PanelTask task = given;  // nothing that is written can be a part of it
  const __m512 a = _mm512_set1_ps(task.factor * task.a), factor = _mm512_set1_ps(task.factor);
  const int64_t strip = task.lines * kPairsPerStep, calls = 4 * task.lines,
                at_once = (kTile + calls - 1) / calls;
  Pending pending;
  for (int64_t j = 0; j < task.count; ++j) {
    for (int64_t row = 0; row < task.lines; ++row) {
      float* own = sums[(j * task.lines + row) % 2];
      multiply_beside(packed_rows(task.p + row * strip), task.old + j * strip, task.lines, false, own, kBlock,
                      [&] { pending.finish(a, factor, at_once); });
      pending.finish(a, factor, kTile);
      const int64_t block = j * strip + row * kPairsPerStep, at = row * task.stride + j * kPairsPerStep;
      pending = {own, task.old + block, task.x + block, task.left + at, task.right + at, 0};
    }
  }
  pending.finish(a, factor, kTile);
}

}  // namespace
}  // namespace bridle::amx
