// See adamw.h. Moments start at 0; bias correction divides them by 1 − β^t at the t-th step, counted from 1.
#include "optim/adamw.h"

#include <cmath>

namespace bridle {

Tensor adam_update_(const AdamMoments& moments, const Tensor& gradient, const OptimizerOptions& options,
                    int64_t step) {
  moments.first.lerp_(gradient, 1.0 - options.beta1);
  moments.second.mul_(options.beta2).addcmul_(gradient, gradient, 1.0 - options.beta2);
  const Tensor root = moments.second.sqrt();
  if (!options.bias_correction) return moments.first.div(root.add_(options.eps));
  const auto t = static_cast<double>(step + 1);
  root.div_(std::sqrt(1.0 - std::pow(options.beta2, t))).add_(options.eps);
  return moments.first.div(root).div_(1.0 - std::pow(options.beta1, t));
}

}  // namespace bridle
