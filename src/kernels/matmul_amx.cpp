// The part of matmul_amx.h that is made of AMX's own instructions.
#include <immintrin.h>

#include "kernels/matmul_amx.h"

namespace bridle::amx {
namespace {

constexpr int64_t kTile = 16, kTilePairs = kTile * kTile;
constexpr int64_t kRowBytes = 64;  // of a tile

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {kRowBytes, kRowBytes, kRowBytes, kRowBytes,
                            kRowBytes, kRowBytes, kRowBytes, kRowBytes};
  uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};
const TileConfiguration kConfiguration;  // GCC 12 drops the writes to one on the stack

// GCC 12's tile loads do not tell the compiler that they read memory.
inline void finish_writes() { asm volatile("" ::: "memory"); }

}  // namespace

void configure_tiles() { _tile_loadconfig(&kConfiguration); }
void release_tiles() { _tile_release(); }

void multiply_on_tiles(const uint32_t* left, const uint32_t* right, int64_t steps, bool accumulate,
                       float* sums) {
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

}  // namespace bridle::amx
