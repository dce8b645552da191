// What attention and mixing know of positions: which tokens a token sees, and a learned logit per head and distance.
#pragma once

#include <ATen/core/Tensor.h>

#include "bridle/architecture.h"
#include "bridle/param.h"

namespace bridle {

// −∞ where token i (of the last `rows` of `length`) does not see token j, else 0: [B or 1, 1, rows, length]. A token sees itself
// and what stands before it, in its window (0: no limit) and from `begins` ([B, rows], or undefined) on.
at::Tensor visible_logits(int64_t rows, int64_t length, int64_t window, const at::Tensor& begins,
                          const at::TensorOptions& options);

// [heads, offsets] → [heads, rows, length] for the last `rows` of `length` tokens; the last offset serves all that are farther.
at::Tensor biases_by_distance(const at::Tensor& table, int64_t rows, int64_t length);

// Head h of a block begins with position_bias_start at distance h·dilation^block.
void start_positions_(const Param& position_bias, const TransformerOptions& options, int64_t block);

}  // namespace bridle
