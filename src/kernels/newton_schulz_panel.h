// The innermost part of newton_schulz.h: a panel of columns through one step, on either instruction set. Requires a TileScope. Layouts
// are matmul_amx.h's.
#pragma once

#include <cstdint>

namespace bridle::amx {

// x = factor·(a·old + P·old) for `count` blocks of 32 columns.
struct PanelTask {
  const uint32_t* p;  // as left factor
  int64_t lines;      // of P and of the columns, in blocks of 32
  float a, factor;
  const uint32_t* old;  // as right factors, a block of columns after the other
  uint32_t* x;          // likewise
  int64_t count;
  uint32_t *left, *right;  // x as both factors of xxᵀ, lines `stride` words apart
  int64_t stride;
};
void apply_panel_amx(const PanelTask& task);
void apply_panel_avx512_bf16(const PanelTask& task);

}  // namespace bridle::amx
