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

Residual::Residual(const TransformerOptions& options, Weights& weights, const std::string& name, double alpha)
    : convex_(is_convex(options.residual)), alpha_(alpha) {
  if (options.learned_alpha) learned_ = weights.vector(name, Role::residual_weight, {1}, alpha);
}

double Residual::alpha() const { return learned_ ? learned_->tensor.item<double>() : alpha_; }

at::Tensor Residual::forward(const at::Tensor& x, const at::Tensor& branch) const {
  if (learned_) return at::lerp(x, branch, learned_->tensor.to(x.scalar_type()));
  return convex_ ? at::lerp(x, branch, alpha_) : x.add(branch);
}

FusedNumber Residual::keep(FusedProgram& program) const {
  if (learned_) return program.number(*learned_, -1.0F, 1.0F);
  return {convex_ ? static_cast<float>(1.0 - alpha_) : 1.0F};
}

FusedNumber Residual::share(FusedProgram& program) const {
  if (learned_) return program.number(*learned_);
  return {convex_ ? static_cast<float>(alpha_) : 1.0F};
}

Bound Residual::bound(const Bound& x, const Bound& branch, Walk& walk) const {
  const std::optional<double> alpha = learned_ ? walk.norms.scalar(*learned_) : alpha_;
  if (!alpha)  // somewhere in [0, 1]: one of the two ends is the worst
    return {.activation = max(x.activation, branch.activation),
            .lipschitz = max(x.lipschitz, branch.lipschitz)};
  // 1 − α may be rounded by the subtraction: the next number up is not below it.
  const UpperBound rest =
      convex_ ? std::nextafter(std::abs(1.0 - *alpha), std::numeric_limits<double>::infinity()) : 1.0;
  const UpperBound share = convex_ ? std::abs(*alpha) : 1.0;
  return {.activation = rest * x.activation + share * branch.activation,
          .lipschitz = rest * x.lipschitz + share * branch.lipschitz};
}

// a + α(b − a), or b − (b − a)(1 − α) for α from ½: α is cast, and a difference, a product and a sum are rounded.
Enclosure Residual::enclose(const Enclosure& x, const Enclosure& branch, const ErrorWalk& walk) const {
  const double rest = convex_ ? std::abs(1.0 - alpha()) : 1.0;
  const double share = convex_ ? std::abs(alpha()) : 1.0;
  const double part = !convex_ ? 0.0 : share < 0.5 ? share : std::max({1.0, share, rest});
  const at::Tensor moved = walk.size(x).add(walk.size(branch)).mul(walk.unit(x.error.dim())).mul(4.0 * part);
  const double root = std::sqrt(static_cast<double>(x.values.size(-1)));
  const at::Tensor flushed = walk.least(x.error.dim()).mul(4.0 * root * std::max({1.0, share, rest}));
  at::Tensor error = raised(x.error.mul(rest).add(branch.error, share).add(moved).add(flushed));
  if (convex_) error = error.add(walk.scalar_error(alpha(), error.dim()));
  return walk.stored(forward(x.values, branch.values), raised(x.reach.mul(rest).add(branch.reach, share)),
                     error);
}

}  // namespace bridle
