#include "nn/residual.h"

#include <ATen/ops/lerp.h>

#include <cmath>
#include <limits>

namespace bridle {

at::Tensor Residual::forward(const at::Tensor& x, const at::Tensor& branch) const {
  return convex_ ? at::lerp(x, branch, alpha_) : x.add(branch);
}

Bound Residual::bound(const Bound& x, const Bound& branch) const {
  // 1 − α may be rounded by the subtraction: the next number up is not below it.
  const UpperBound rest =
      convex_ ? std::nextafter(std::abs(1.0 - alpha_), std::numeric_limits<double>::infinity()) : 1.0;
  const UpperBound share = convex_ ? std::abs(alpha_) : 1.0;
  return {.activation = rest * x.activation + share * branch.activation,
          .lipschitz = rest * x.lipschitz + share * branch.lipschitz};
}

}  // namespace bridle
