// The parts of a bfloat16 matrix product, on raw memory: pack both factors into tiles, multiply blocks of 32×32 results, write
// them. A tile holds 16 rows or columns × 32 along the sum, as 16×16 pairs of bfloat16: a left tile is [row][pair], a right tile
// [pair][column], so each is the transpose of the other. Everything here requires InstructionSet::avx512_bf16 or amx, whose tiles
// then multiply. Denormal factors and results count as zero.
#pragma once

#include <cstdint>

namespace bridle::amx {

constexpr int64_t kBlock = 32;                         // rows and columns of a block of results
constexpr int64_t kStep = 32;                          // terms of the sum in one tile
constexpr int64_t kPairsPerStep = kBlock * kStep / 2;  // size of a packed block, per step
constexpr int64_t kSums = kBlock * kBlock;  // size of a block of results, as [2][2] tiles of [16][16]

enum class Element { float32, bfloat16 };

// A factor of the product. `lines` counts rows of the left or columns of the right one, `depth` the terms of
// the sum; one of the two indices is consecutive in memory, the other advances by `stride` elements.
struct Factor {
  const void* data;
  Element element;
  bool along_depth;  // the terms of the sum are consecutive
  int64_t lines, depth, stride;
  bool operator==(const Factor&) const = default;
};

enum class Side { left, right };

// Packs lines [line, line + 32) × terms [start, start + 32·steps) as [steps][2 tiles][16][16] pairs, zero
// outside.
void pack(const Factor& factor, Side side, int64_t line, int64_t start, int64_t steps, uint32_t* packed);

// AMX's tiles may be used by a thread only while it holds one of these.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

// sums = left·right, or sums += left·right; all 64-byte aligned.
void multiply(const uint32_t* left, const uint32_t* right, int64_t steps, bool accumulate, float* sums);

// What the above are on AMX.
void configure_tiles();
void release_tiles();
void multiply_on_tiles(const uint32_t* left, const uint32_t* right, int64_t steps, bool accumulate,
                       float* sums);

void transpose(float* sums);

// Where results go: factor·sums + scale·addend, rows `stride` apart, rounded to the element type. No addend:
// null.
struct Target {
  void* data;
  Element element;
  int64_t rows, columns, stride;
  float factor;
  const void* addend;
  Element addend_element;
  int64_t addend_stride;
  float scale;
};

// Writes the part of a block that lies inside the target; its first result belongs at (row, column).
void write(const float* sums, const Target& target, int64_t row, int64_t column);

// For results that are the next product's factors, a block at a time. A block of 32×32 is one packed step of either side: of a
// left factor with its rows as lines, of a right factor with its columns as lines.

void pack_left(const float* sums, uint32_t* packed);

// From a step of a left factor that of the right factor which is its transpose.
void transpose(const uint32_t* left, uint32_t* right);

// sums = factor·sums + scale·block
void add_left(const uint32_t* packed, float scale, float factor, float* sums);
void add_right(const uint32_t* packed, float scale, float factor, float* sums);

double trace(const float* sums);

// sums = factor·(the sum of `count` blocks, `stride` apart, in their order)
void add_up(const float* blocks, int64_t count, int64_t stride, float factor, float* sums);

}  // namespace bridle::amx
