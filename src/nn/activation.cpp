#include "nn/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <stdexcept>

namespace bridle {

namespace {

at::Tensor sorted_pairs(const at::Tensor& x) {
  const at::Tensor a = x.slice(-1, 0, x.size(-1), 2), b = x.slice(-1, 1, x.size(-1), 2);
  return at::stack({at::maximum(a, b), at::minimum(a, b)}, -1).flatten(-2);
}

at::Tensor applied(ActivationKind kind, const at::Tensor& x) {
  switch (kind) {
    case ActivationKind::gelu:
      return at::gelu(x, "none");
    case ActivationKind::gelu_tanh:
      return at::gelu(x, "tanh");
    case ActivationKind::relu:
      return at::relu(x);
    case ActivationKind::maxmin:
      return sorted_pairs(x);
  }
  throw std::logic_error("an activation without a forward pass");
}

// The largest; and |f(x)| ≤ |x| for all of them.
double slope_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return kGeluSlope;
    case ActivationKind::gelu_tanh:
      return kGeluTanhSlope;
    case ActivationKind::relu:
    case ActivationKind::maxmin:
      return 1.0;
  }
  throw std::logic_error("an activation without a bound");
}

// Computed without rounding in every precision.
bool is_exact(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
    case ActivationKind::gelu_tanh:
      return false;
    case ActivationKind::relu:
    case ActivationKind::maxmin:
      return true;
  }
  throw std::logic_error("an activation without a forward error");
}

}  // namespace

at::Tensor Activation::forward(const at::Tensor& x) const {
  const at::Tensor y = applied(kind_, x);
  return divisor_ == 1.0 ? y : y.div(divisor_);
}

Bound Activation::bound(const Bound& in) const {
  return {.activation = in.activation / divisor_,
          .lipschitz = UpperBound(slope_of(kind_)) / divisor_ * in.lipschitz};
}

// GeLU errs by a few units of its argument.
Enclosure Activation::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  const at::Tensor values = forward(x.values);
  const bool exact = is_exact(kind_);
  const double slope = slope_of(kind_);
  if (exact && divisor_ == 1.0) return {values, x.reach, x.error};
  const int64_t dimensions = x.error.dim();
  const double root = std::sqrt(static_cast<double>(values.size(-1)));
  at::Tensor units = walk.unit(dimensions).mul(2.0);  // the divisor is cast
  if (!exact) units = units.add(walk.sum_unit(dimensions).mul(32.0)).add(walk.unit(dimensions).mul(8.0));
  const at::Tensor error = x.error.mul(slope)
                               .add(walk.size(x).mul(units))
                               .add(walk.least(dimensions).mul(4.0 * root))
                               .add(walk.scalar_error(divisor_, dimensions));
  return walk.stored(values, raised(x.reach.mul(slope).div(divisor_)), raised(error.div(divisor_)));
}

}  // namespace bridle
