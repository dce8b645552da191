// See muon.h.
#include "optim/muon.h"

namespace bridle {

double momentum_at(const OptimizerOptions& options, int64_t step) {
  if (step >= options.momentum_warmup_steps) return options.momentum;
  const double passed = static_cast<double>(step) / static_cast<double>(options.momentum_warmup_steps);
  return (1.0 - passed) * options.momentum_start + passed * options.momentum;
}

Tensor average_gradient_(const Tensor& momentum, const Tensor& gradient, double beta, bool nesterov) {
  momentum.lerp_(gradient, 1.0 - beta);
  return nesterov ? gradient.lerp(momentum, beta) : momentum;
}

Tensor muon_update(const Tensor& direction, const Param& param, const MuonOptions& options) {
  const Tensor blocks = direction.reshape(param.block_view().sizes());
  const Tensor matrices = param.blocks == 1 ? blocks.squeeze(0) : blocks;
  return orthogonalize(matrices, options.coefficients, options.product_dtype)
      .mul_(param.unit())
      .reshape(direction.sizes());
}

}  // namespace bridle
