#include "nn/residual.h"

#include <ATen/ops/lerp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace bridle {

bool is_convex(ResidualKind kind) {
  switch (kind) {
    case ResidualKind::convex:
      return true;
    case ResidualKind::plain:
      return false;
  }
  throw std::logic_error("a residual without a formula");
}

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

// a + α(b − a), or b − (b − a)(1 − α) for α from ½: α is cast, and a difference, a product and a sum are rounded.
Enclosure Residual::enclose(const Enclosure& x, const Enclosure& branch, const ErrorWalk& walk) const {
  const double rest = convex_ ? std::abs(1.0 - alpha_) : 1.0;
  const double share = convex_ ? std::abs(alpha_) : 1.0;
  const double part = !convex_ ? 0.0 : share < 0.5 ? share : std::max({1.0, share, rest});
  const at::Tensor moved = walk.size(x).add(walk.size(branch)).mul(walk.unit(x.error.dim())).mul(4.0 * part);
  const double root = std::sqrt(static_cast<double>(x.values.size(-1)));
  const at::Tensor flushed = walk.least(x.error.dim()).mul(4.0 * root * std::max({1.0, share, rest}));
  at::Tensor error = raised(x.error.mul(rest).add(branch.error, share).add(moved).add(flushed));
  if (convex_) error = error.add(walk.scalar_error(alpha_, error.dim()));
  return walk.stored(forward(x.values, branch.values), raised(x.reach.mul(rest).add(branch.reach, share)),
                     error);
}

}  // namespace bridle
