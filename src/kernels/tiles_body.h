// Blocks of 32×32 results of products of values with float32 sums: bfloat16 on AMX tiles where the file is compiled for them,
// otherwise on vectors. The layout of packed bfloat16 factors is matmul_amx.h's; a packed step of float32 is [line][term] on the
// left and [term][line] on the right.
#pragma once

#include "kernels/matmul_amx.h"
#include "kernels/vectors.h"
#if defined(__AVX512F__) && !defined(BRIDLE_STEP_FLOAT32)
#include "kernels/tile_pack.h"
#endif

namespace bridle {
namespace {

using amx::Element;
using amx::Factor;
using amx::kBlock;
using amx::kPairsPerStep;
using amx::kStep;
using amx::Side;

constexpr int64_t kStepWords = kBlock * kStep * static_cast<int64_t>(sizeof(Value)) / 4;  // of a packed step
constexpr Element kElement = kFloat32 ? Element::float32 : Element::bfloat16;
constexpr int64_t packed_words(int64_t lines, int64_t depth) {
  return lines * depth * static_cast<int64_t>(sizeof(Value)) / 4;
}

constexpr int64_t kTilePairs = 256;

// 32 rows of a left factor: in packed form, or as they lie in memory.
struct Rows {
  const void* data;
  int64_t stride, half,
      step;  // bytes from row to row, from the first 16 rows to the others, and from step to step
};
BRIDLE_INLINE Rows rows_at(const Value* data, int64_t stride) {
  constexpr int64_t bytes = sizeof(Value);
  return {data, bytes * stride, 16 * bytes * stride, bytes * kStep};
}
BRIDLE_INLINE Rows packed_rows(const uint32_t* packed) {
  constexpr int64_t row = kStep * static_cast<int64_t>(sizeof(Value));
  return {packed, row, 16 * row, 32 * row};
}

#if defined(BRIDLE_STEP_FLOAT32)

// Lines that lie next to each other are copied a row of 32 at a time.
inline void pack_lines(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps,
                       uint32_t* packed) {
  const auto* data = static_cast<const float*>(factor.data);
  auto* out = reinterpret_cast<float*>(packed);
  const bool row_by_row = factor.along_depth == (side == Side::left);
  const int64_t line_step = side == Side::left ? kStep : 1, term_step = side == Side::left ? 1 : kBlock;
  for (int64_t step = 0; step < steps; ++step, out += kBlock * kStep) {
    const int64_t first = start + step * kStep;
    const bool whole = line + kBlock <= factor.lines && first + kStep <= factor.depth;
    if (whole && row_by_row) {
      const float* from =
          factor.along_depth ? data + line * factor.stride + first : data + first * factor.stride + line;
      for (int64_t i = 0; i < kBlock; ++i)
        std::memcpy(out + i * kBlock, from + i * factor.stride, kBlock * sizeof(float));
      continue;
    }
    const int64_t line_stride = factor.along_depth ? factor.stride : 1,
                  depth_stride = factor.along_depth ? 1 : factor.stride;
    for (int64_t i = 0; i < kBlock; ++i) {
      for (int64_t j = 0; j < kStep; ++j) {
        const bool inside = line + i < factor.lines && first + j < factor.depth;
        out[i * line_step + j * term_step] =
            inside ? data[(line + i) * line_stride + (first + j) * depth_stride] : 0.0F;
      }
    }
  }
}

#elif defined(__AVX512F__)

inline void pack_lines(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps,
                       uint32_t* packed) {
  if (factor.element == Element::float32)
    return amx::pack_from<float>(factor, side, line, start, steps, packed);
  amx::pack_from<uint16_t>(factor, side, line, start, steps, packed);
}

#else

template <class T>
BRIDLE_INLINE uint32_t rounded(const T* data) {
  if constexpr (sizeof(T) == 2) return *data;
  uint32_t bits;
  std::memcpy(&bits, data, 4);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return nan ? 0x7fc0U : (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
}

template <class T>
void pack_from(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps,
               uint32_t* packed) {
  const int64_t line_stride = factor.along_depth ? factor.stride : 1;
  const int64_t depth_stride = factor.along_depth ? 1 : factor.stride;
  const T* data = static_cast<const T*>(factor.data);
  for (int64_t step = 0; step < steps; ++step, packed += kPairsPerStep) {
    for (int64_t i = 0; i < kBlock; ++i) {
      for (int64_t pair = 0; pair < kStep / 2; ++pair) {
        const int64_t term = start + step * kStep + 2 * pair;
        const T* at = data + (line + i) * line_stride + term * depth_stride;
        const bool inside = line + i < factor.lines;
        const uint32_t low = inside && term < factor.depth ? rounded(at) : 0;
        const uint32_t high = inside && term + 1 < factor.depth ? rounded(at + depth_stride) : 0;
        const int64_t in_tile = side == Side::left ? i % 16 * 16 + pair : pair * 16 + i % 16;
        packed[i / 16 * kTilePairs + in_tile] = low | high << 16;
      }
    }
  }
}

inline void pack_lines(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps,
                       uint32_t* packed) {
  if (factor.element == Element::float32) return pack_from<float>(factor, side, line, start, steps, packed);
  pack_from<uint16_t>(factor, side, line, start, steps, packed);
}

#endif

#if defined(__AMX_BF16__) && !defined(BRIDLE_STEP_FLOAT32)

using amx::TileScope;

// GCC 12's tile loads do not tell the compiler that they read memory.
BRIDLE_INLINE void finish_writes() { asm volatile("" ::: "memory"); }

// sums (+)= left·right, rows `stride` floats apart. `meanwhile` is called after every step: what it does on vectors runs beside
// the tiles.
template <class Meanwhile>
BRIDLE_INLINE void multiply_beside(const Rows& left, const uint32_t* right, int64_t steps, bool accumulate,
                                   float* sums, int64_t stride, const Meanwhile& meanwhile) {
  const char* upper = static_cast<const char*>(left.data);
  const char* lower = upper + left.half;
  const int64_t out_bytes = 4 * stride;
  float* below = sums + 16 * stride;
  finish_writes();
  if (accumulate) {
    _tile_loadd(0, sums, out_bytes);
    _tile_loadd(1, sums + 16, out_bytes);
    _tile_loadd(2, below, out_bytes);
    _tile_loadd(3, below + 16, out_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, upper, left.stride);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    meanwhile();
    _tile_loadd(7, right + kTilePairs, 64);
    _tile_dpbf16ps(1, 4, 7);
    meanwhile();
    _tile_loadd(5, lower, left.stride);
    _tile_dpbf16ps(2, 5, 6);
    meanwhile();
    _tile_dpbf16ps(3, 5, 7);
    meanwhile();
    upper += left.step;
    lower += left.step;
    right += kPairsPerStep;
  }
  _tile_stored(0, sums, out_bytes);
  _tile_stored(1, sums + 16, out_bytes);
  _tile_stored(2, below, out_bytes);
  _tile_stored(3, below + 16, out_bytes);
  finish_writes();
}

#else

struct TileScope {
  TileScope() {}  // NOLINT(modernize-use-equals-default): an unused variable of this type is no mistake
};

#if defined(BRIDLE_STEP_FLOAT32)

#if defined(__AVX512F__)
constexpr int64_t kHalves = 2, kStripLines = 8;
#else
constexpr int64_t kHalves = 1, kStripLines = 4;
#endif
constexpr int64_t kHalfWords = 16;  // from the first 16 columns of a packed step to the others

BRIDLE_INLINE void multiply_strip(const char* left, const Rows& rows, const uint32_t* right, int64_t steps,
                                  bool accumulate, float* sums, int64_t stride) {
  Floats total[kStripLines][kHalves];
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t half = 0; half < kHalves; ++half)
      total[i][half] = accumulate ? load(sums + i * stride + 16 * half) : splat(0.0F);
  }
  for (int64_t step = 0; step < steps; ++step, left += rows.step, right += kStepWords) {
    for (int64_t term = 0; term < kStep; ++term) {
      Floats b[kHalves];
      for (int64_t half = 0; half < kHalves; ++half)
        std::memcpy(&b[half], right + term * kBlock + half * kHalfWords, sizeof(Floats));
      for (int64_t i = 0; i < kStripLines; ++i) {
        float a;
        std::memcpy(&a, left + i * rows.stride + 4 * term, 4);
        for (int64_t half = 0; half < kHalves; ++half) total[i][half] = total[i][half] + a * b[half];
      }
    }
  }
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t half = 0; half < kHalves; ++half) store(sums + i * stride + 16 * half, total[i][half]);
  }
}

#elif defined(__AVX512BF16__)

// Eight rows × 32 columns: the two terms of a pair, each times its own, in one instruction.
constexpr int64_t kHalves = 2, kStripLines = 8, kHalfWords = kTilePairs;

BRIDLE_INLINE Floats add_terms(Floats total, uint32_t a, Words pairs) {
  const __m512i spread = _mm512_set1_epi32(static_cast<int32_t>(a));
  return reinterpret_cast<Floats>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(total),
                                                   reinterpret_cast<__m512bh>(spread),
                                                   reinterpret_cast<__m512bh>(pairs)));
}

BRIDLE_INLINE void multiply_strip(const char* left, const Rows& rows, const uint32_t* right, int64_t steps,
                                  bool accumulate, float* sums, int64_t stride) {
  Floats total[kStripLines][kHalves];
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t half = 0; half < kHalves; ++half)
      total[i][half] = accumulate ? load(sums + i * stride + 16 * half) : splat(0.0F);
  }
  for (int64_t step = 0; step < steps; ++step, left += rows.step, right += kPairsPerStep) {
    for (int64_t pair = 0; pair < kStep / 2; ++pair) {
      Words b[kHalves];
      for (int64_t half = 0; half < kHalves; ++half)
        std::memcpy(&b[half], right + half * kTilePairs + 16 * pair, sizeof(Words));
      for (int64_t i = 0; i < kStripLines; ++i) {
        uint32_t a;
        std::memcpy(&a, left + i * rows.stride + 4 * pair, 4);
        for (int64_t half = 0; half < kHalves; ++half) total[i][half] = add_terms(total[i][half], a, b[half]);
      }
    }
  }
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t half = 0; half < kHalves; ++half) store(sums + i * stride + 16 * half, total[i][half]);
  }
}

#else

// Without that instruction products are those of float32: the strip's rows are widened once for all columns, a pair of the right
// factor once for all rows.
#if defined(__AVX512F__)
constexpr int64_t kHalves = 2, kStripLines = 8;
#else
constexpr int64_t kHalves = 1, kStripLines = 4;
#endif
constexpr int64_t kHalfWords = kTilePairs, kWideSteps = 8;
struct WideStrip {
  alignas(64) float terms[kStripLines][kWideSteps * kStep];
};

BRIDLE_INLINE void widen(const char* left, const Rows& rows, int64_t steps, WideStrip& wide) {
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t step = 0; step < steps; ++step) {
      const auto* from = reinterpret_cast<const uint16_t*>(left + i * rows.stride + step * rows.step);
      store(wide.terms[i] + step * kStep, load(from));
      store(wide.terms[i] + step * kStep + kLanes, load(from + kLanes));
    }
  }
}

BRIDLE_INLINE void multiply_wide(const WideStrip& left, const uint32_t* right, int64_t steps, bool accumulate,
                                 float* sums, int64_t stride) {
  Floats total[kStripLines][kHalves];
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t half = 0; half < kHalves; ++half)
      total[i][half] = accumulate ? load(sums + i * stride + 16 * half) : splat(0.0F);
  }
  for (int64_t step = 0; step < steps; ++step, right += kPairsPerStep) {
    for (int64_t pair = 0; pair < kStep / 2; ++pair) {
      Floats low[kHalves], high[kHalves];
      for (int64_t half = 0; half < kHalves; ++half) {
        Words pairs;
        std::memcpy(&pairs, right + half * kTilePairs + 16 * pair, sizeof(Words));
        low[half] = reinterpret_cast<Floats>(pairs << 16);
        high[half] = reinterpret_cast<Floats>(pairs & 0xffff0000U);
      }
      const int64_t term = step * kStep + 2 * pair;
      for (int64_t i = 0; i < kStripLines; ++i) {
        for (int64_t half = 0; half < kHalves; ++half)
          total[i][half] = total[i][half] + left.terms[i][term] * low[half];
      }
      for (int64_t i = 0; i < kStripLines; ++i) {
        for (int64_t half = 0; half < kHalves; ++half)
          total[i][half] = total[i][half] + left.terms[i][term + 1] * high[half];
      }
    }
  }
  for (int64_t i = 0; i < kStripLines; ++i) {
    for (int64_t half = 0; half < kHalves; ++half) store(sums + i * stride + 16 * half, total[i][half]);
  }
}

#endif

#if defined(BRIDLE_STEP_FLOAT32) || defined(__AVX512BF16__)

BRIDLE_INLINE void multiply_rows(const char* left, const Rows& rows, const uint32_t* right, int64_t steps,
                                 bool accumulate, float* sums, int64_t stride) {
  for (int64_t half = 0; half < 2; half += kHalves)
    multiply_strip(left, rows, right + half * kHalfWords, steps, accumulate, sums + 16 * half, stride);
}

#else

BRIDLE_INLINE void multiply_rows(const char* left, const Rows& rows, const uint32_t* right, int64_t steps,
                                 bool accumulate, float* sums, int64_t stride) {
  WideStrip wide;
  for (int64_t done = 0; done < steps; done += kWideSteps) {
    const int64_t count = steps - done < kWideSteps ? steps - done : kWideSteps;
    widen(left + done * rows.step, rows, count, wide);
    for (int64_t half = 0; half < 2; half += kHalves)
      multiply_wide(wide, right + done * kPairsPerStep + half * kHalfWords, count, accumulate || done > 0,
                    sums + 16 * half, stride);
  }
}

#endif

template <class Meanwhile>
inline void multiply_beside(const Rows& left, const uint32_t* right, int64_t steps, bool accumulate,
                            float* sums, int64_t stride, const Meanwhile& meanwhile) {
  for (int64_t step = 0; step < 4 * steps; ++step) meanwhile();
  for (int64_t row = 0; row < kBlock; row += kStripLines) {
    const char* data = static_cast<const char*>(left.data) + row / 16 * left.half + row % 16 * left.stride;
    multiply_rows(data, left, right, steps, accumulate, sums + row * stride, stride);
  }
}

#endif

BRIDLE_INLINE void multiply(const Rows& left, const uint32_t* right, int64_t steps, bool accumulate,
                            float* sums, int64_t stride) {
  multiply_beside(left, right, steps, accumulate, sums, stride, [] {});
}

}  // namespace
}  // namespace bridle
