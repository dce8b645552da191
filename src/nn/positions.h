// What attention and mixing know of positions: which tokens a token sees, and a learned logit per head and distance.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "bridle/architecture.h"
#include "bridle/param.h"
#include "kernels/step_kernels.h"

namespace bridle {

// Which tokens a token sees: itself and those before it, in its window and its document.
struct Visibility {
  int64_t window = 0;  // tokens, itself included; 0: no limit

  // −∞ where token i (of the last `rows` of `length`) does not see token j, else 0: [B or 1, 1, rows, length]. Documents begin at
  // `begins`, [B, rows], or undefined.
  at::Tensor logits(int64_t rows, int64_t length, const at::Tensor& begins,
                    const at::TensorOptions& options) const;
  // As the kernels have it, for the rows from `first` on; `begins` may be null.
  VisibleTokens tokens(const int32_t* begins, int64_t first) const {
    return {begins == nullptr ? nullptr : begins + first, window};
  }
  // How many offsets count, of a sequence of so many rows without documents.
  int64_t offsets(int64_t rows) const { return window == 0 ? rows : std::min(rows, window); }
};

Visibility visibility(const TransformerOptions& options);

// [heads, offsets] → [heads, rows, length] for the last `rows` of `length` tokens; the last offset serves all that are farther.
at::Tensor biases_by_distance(const at::Tensor& table, int64_t rows, int64_t length);

// Head h of a block begins with position_bias_start at distance h·dilation^block.
void start_positions_(const Param& position_bias, const TransformerOptions& options, int64_t block);

}  // namespace bridle
