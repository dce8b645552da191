#include "nn/positions.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace bridle {

Visibility visibility(const TransformerOptions& options, int64_t layer) {
  const std::vector<int64_t>& long_ones = options.long_window_layers;
  const bool is_long =
      long_ones.empty() || std::find(long_ones.begin(), long_ones.end(), layer) != long_ones.end();
  return {.window = options.attention_window, .block = options.window_block, .is_short = !is_long};
}

int64_t Visibility::reach(double share) const {
  if (window == 0) return 0;
  const double size = static_cast<double>(block), grown = share * (static_cast<double>(window) - size / 2.0);
  const int64_t blocks =
      std::clamp(static_cast<int64_t>(std::ceil(grown / size)), int64_t{1}, window / block);
  return block * (is_short ? std::max(blocks / 2, int64_t{1}) : blocks);
}

at::Tensor Visibility::logits(int64_t rows, int64_t length, const Pass& pass,
                              const at::TensorOptions& options) const {
  const at::Tensor column = at::arange(length, options.dtype(at::kLong));
  const at::Tensor token = column.narrow(0, length - rows, rows).unsqueeze(1);  // [T, 1]
  at::Tensor hidden = column.gt(token).unsqueeze(0);                            // [1, T, length]
  if (window > 0) {
    const at::Tensor end = token.sub(token.remainder(block)).add(block);
    hidden = hidden.logical_or(column.lt(end.sub(reach(pass.window_share))));
  }
  if (pass.begins.defined()) hidden = hidden.logical_or(column.lt(pass.begins.unsqueeze(-1)));
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
