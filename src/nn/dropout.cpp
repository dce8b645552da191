#include "nn/dropout.h"

namespace bridle {

at::Tensor dropout(const at::Tensor& x, double share, Pass& pass) {
  if (!pass.training || share == 0.0) return x;
  RandomKey key = pass.dropout;
  key.step = (key.step << 12U) + pass.dropout_calls++;
  const at::Tensor kept = random_uniform(x.sizes(), key, at::kFloat).ge(share);
  return x.mul(kept.to(x.device(), x.scalar_type())).div(1.0 - share);
}

}  // namespace bridle
