// See matmul_amx.h: all but the instructions of AMX, and the product without them.
#include "kernels/cpu.h"
#include "kernels/matmul_amx.h"
#include "kernels/tile_pack.h"

namespace bridle::amx {
namespace {

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

constexpr int64_t kStrip = 8;  // rows whose 32 sums fit in the registers

// A pair of terms of eight rows, times that of 32 columns, in one instruction each.
void multiply_strip(const uint32_t* left, const uint32_t* right, int64_t steps, bool accumulate,
                    float* sums) {
  __m512 total[kStrip][2];
  for (int64_t i = 0; i < kStrip; ++i) {
    for (int64_t tile = 0; tile < 2; ++tile)
      total[i][tile] =
          accumulate ? _mm512_load_ps(sums + tile * kTilePairs + i * kTile) : _mm512_setzero_ps();
  }
  for (int64_t step = 0; step < steps; ++step, left += kPairsPerStep, right += kPairsPerStep) {
    for (int64_t pair = 0; pair < kTile; ++pair) {
      const auto low = reinterpret_cast<__m512bh>(_mm512_load_si512(right + pair * kTile));
      const auto high = reinterpret_cast<__m512bh>(_mm512_load_si512(right + kTilePairs + pair * kTile));
      for (int64_t i = 0; i < kStrip; ++i) {
        const auto term =
            reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int32_t>(left[i * kTile + pair])));
        total[i][0] = _mm512_dpbf16_ps(total[i][0], term, low);
        total[i][1] = _mm512_dpbf16_ps(total[i][1], term, high);
      }
    }
  }
  for (int64_t i = 0; i < kStrip; ++i) {
    for (int64_t tile = 0; tile < 2; ++tile)
      _mm512_store_ps(sums + tile * kTilePairs + i * kTile, total[i][tile]);
  }
}

}  // namespace

void pack(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps, uint32_t* packed) {
  if (factor.element == Element::float32) return pack_from<float>(factor, side, line, start, steps, packed);
  pack_from<uint16_t>(factor, side, line, start, steps, packed);
}

TileScope::TileScope() {
  if (instruction_set() == InstructionSet::amx) configure_tiles();
}

TileScope::~TileScope() {
  if (instruction_set() == InstructionSet::amx) release_tiles();
}

void multiply(const uint32_t* left, const uint32_t* right, int64_t steps, bool accumulate, float* sums) {
  if (instruction_set() == InstructionSet::amx)
    return multiply_on_tiles(left, right, steps, accumulate, sums);
  for (int64_t row = 0; row < kBlock; row += kStrip)
    multiply_strip(left + row * kTile, right, steps, accumulate,
                   sums + row / kTile * 2 * kTilePairs + row % kTile * kTile);
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
