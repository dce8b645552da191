#include "nn/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>

#include <cmath>

namespace bridle {

Activation::Activation(const std::string& name, double divisor)
    : kind_(name == "gelu"     ? Kind::gelu
            : name == "relu"   ? Kind::relu
            : name == "maxmin" ? Kind::maxmin
                               : Kind::gelu_tanh),
      divisor_(divisor) {}

namespace {

at::Tensor sorted_pairs(const at::Tensor& x) {
  const at::Tensor a = x.slice(-1, 0, x.size(-1), 2), b = x.slice(-1, 1, x.size(-1), 2);
  return at::stack({at::maximum(a, b), at::minimum(a, b)}, -1).flatten(-2);
}

}  // namespace

at::Tensor Activation::forward(const at::Tensor& x) const {
  const at::Tensor y = kind_ == Kind::relu     ? at::relu(x)
                       : kind_ == Kind::maxmin ? sorted_pairs(x)
                                               : at::gelu(x, kind_ == Kind::gelu ? "none" : "tanh");
  return divisor_ == 1.0 ? y : y.div(divisor_);
}

double Activation::slope() const {
  return kind_ == Kind::gelu ? kGeluSlope : kind_ == Kind::gelu_tanh ? kGeluTanhSlope : 1.0;
}

Bound Activation::bound(const Bound& in) const {
  return {.activation = in.activation / divisor_, .lipschitz = UpperBound(slope()) / divisor_ * in.lipschitz};
}

// ReLU and MaxMin are exact in every precision; GeLU errs by a few units of its argument.
Enclosure Activation::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  const at::Tensor values = forward(x.values);
  const bool exact = kind_ == Kind::relu || kind_ == Kind::maxmin;
  if (exact && divisor_ == 1.0) return {values, x.reach, x.error};
  const int64_t dimensions = x.error.dim();
  const double root = std::sqrt(static_cast<double>(values.size(-1)));
  at::Tensor units = walk.unit(dimensions).mul(2.0);  // the divisor is cast
  if (!exact) units = units.add(walk.sum_unit(dimensions).mul(32.0)).add(walk.unit(dimensions).mul(8.0));
  const at::Tensor error = x.error.mul(slope())
                               .add(walk.size(x).mul(units))
                               .add(walk.least(dimensions).mul(4.0 * root))
                               .add(walk.scalar_error(divisor_, dimensions));
  return walk.stored(values, raised(x.reach.mul(slope()).div(divisor_)), raised(error.div(divisor_)));
}

}  // namespace bridle
