#include "nn/dropout.h"

#include <ATen/ops/ones.h>

#include "kernels/dropout_hash.h"
#include "kernels/dropout_mask.h"

namespace bridle {

uint64_t dropout_key(const RandomKey& key, uint64_t call) {
  const uint64_t stream = static_cast<uint64_t>(key.stream) << 48U;
  return dropout_mix(dropout_mix(key.seed + stream) + dropout_mix(key.step + 1) + call);
}

at::Tensor dropout(const at::Tensor& x, double share, Pass& pass) {
  if (!pass.training || share == 0.0) return x;
  const uint64_t key = dropout_key(pass.dropout, pass.dropout_calls++);
  const int64_t length = x.size(-2), columns = x.size(-1);
  const at::Tensor kept = dropout_mask(x.numel() / (length * columns), length, columns, key, share);
  return x.mul(kept.view(x.sizes()).to(x.device(), x.scalar_type())).div(1.0 - share);
}

at::Tensor drop_path(const at::Tensor& x, double share, Pass& pass) {
  if (!pass.training || share == 0.0) return x;
  const uint64_t key = dropout_key(pass.dropout, pass.dropout_calls++);
  const uint32_t threshold = dropout_threshold(share);
  const at::Tensor kept = at::ones({x.size(0)}, at::kFloat);
  for (int64_t i = 0; i < x.size(0); ++i)
    if (dropout_row(key, static_cast<uint64_t>(i)) < threshold) kept[i] = 0.0;
  return x.mul(kept.view({-1, 1, 1}).to(x.device(), x.scalar_type())).div(1.0 - share);
}

}  // namespace bridle
