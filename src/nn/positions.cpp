#include "nn/positions.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace bridle {

Visibility visibility(const TransformerOptions& options) { return {.window = options.attention_window}; }

at::Tensor Visibility::logits(int64_t rows, int64_t length, const at::Tensor& begins,
                              const at::TensorOptions& options) const {
  const at::Tensor column = at::arange(length, options.dtype(at::kLong));
  const at::Tensor token = column.narrow(0, length - rows, rows).unsqueeze(1);  // [T, 1]
  at::Tensor hidden = column.gt(token).unsqueeze(0);                            // [1, T, length]
  if (window > 0) hidden = hidden.logical_or(column.le(token.sub(window)));
  if (begins.defined()) hidden = hidden.logical_or(column.lt(begins.unsqueeze(-1)));
  return at::zeros({1}, options).masked_fill(hidden, -std::numeric_limits<double>::infinity()).unsqueeze(1);
}

at::Tensor biases_by_distance(const at::Tensor& table, int64_t rows, int64_t length) {
  const at::Tensor column = at::arange(length, table.options().dtype(at::kLong).requires_grad(false));
  const at::Tensor offset =
      column.narrow(0, length - rows, rows).unsqueeze(1).sub(column).clamp(0, table.size(1) - 1);
  return table.index_select(1, offset.view({-1})).view({table.size(0), rows, length});
}

void start_positions_(const Param& position_bias, const TransformerOptions& options, int64_t block) {
  const at::NoGradGuard no_gradients;
  const int64_t heads = position_bias.tensor.size(0), offsets = position_bias.tensor.size(1);
  int64_t apart = 1;
  for (int64_t i = 0; i < block; ++i) apart = std::min(apart * options.position_bias_dilation, offsets);
  for (int64_t head = 0; head < heads && head * apart < offsets; ++head)
    position_bias.tensor[head][head * apart].fill_(options.position_bias_start);
}

}  // namespace bridle
