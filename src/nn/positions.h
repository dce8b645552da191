// What attention and mixing know of positions: which tokens a token sees, and a learned logit per head and distance.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "bridle/architecture.h"
#include "bridle/nn.h"
#include "bridle/param.h"
#include "kernels/step_kernels.h"

namespace bridle {

// Which tokens a token sees: itself and those before it, in its window and its document. A window ends with the token's block.
struct Visibility {
  int64_t window = 0;     // tokens, itself included, of the last token in a block; 0: no limit
  int64_t block = 1;      // tokens of a block, of which `window` is a multiple
  bool is_short = false;  // half as many blocks

  // The window when `share` of its growth is done: the next multiple of a block, at least one.
  int64_t reach(double share = 1.0) const;
  // −∞ where token i (of the last `rows` of `length`) does not see token j, else 0: [B or 1, 1, rows, length]. Documents and growth
  // are the pass's.
  at::Tensor logits(int64_t rows, int64_t length, const Pass& pass, const at::TensorOptions& options) const;
  // As the kernels have it, for the rows from `first` on; `begins` may be null.
  VisibleTokens tokens(const int32_t* begins, int64_t first, double share) const {
    return {begins == nullptr ? nullptr : begins + first, reach(share), block};
  }
  // How many offsets count, of a sequence of so many rows without documents.
  int64_t offsets(int64_t rows) const { return window == 0 ? rows : std::min(rows, reach()); }
};

Visibility visibility(const TransformerOptions& options, int64_t layer);  // of num_hidden_layers, from 0

// [heads, offsets] → [heads, rows, length] for the last `rows` of `length` tokens; the last offset serves all that are farther.
at::Tensor biases_by_distance(const at::Tensor& table, int64_t rows, int64_t length);

// Head h of a block begins with position_bias_start at distance h·dilation^block.
void start_positions_(const Param& position_bias, const TransformerOptions& options, int64_t block);

}  // namespace bridle
