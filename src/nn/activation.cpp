#include "nn/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>

namespace bridle {

Activation::Activation(const std::string& name, double divisor)
    : kind_(name == "gelu"     ? Kind::gelu
            : name == "relu"   ? Kind::relu
            : name == "maxmin" ? Kind::maxmin
                               : Kind::gelu_tanh),
      divisor_(divisor) {}

namespace {

at::Tensor sorted_pairs(const at::Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() /= 2;
  shape.push_back(2);
  const at::Tensor pairs = x.reshape(shape);
  const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return at::stack({at::maximum(a, b), at::minimum(a, b)}, -1).flatten(-2);
}

}  // namespace

at::Tensor Activation::forward(const at::Tensor& x) const {
  const at::Tensor y = kind_ == Kind::relu     ? at::relu(x)
                       : kind_ == Kind::maxmin ? sorted_pairs(x)
                                               : at::gelu(x, kind_ == Kind::gelu ? "none" : "tanh");
  return divisor_ == 1.0 ? y : y.div(divisor_);
}

Bound Activation::bound(const Bound& in) const {
  const double slope = kind_ == Kind::gelu ? kGeluSlope : kind_ == Kind::gelu_tanh ? kGeluTanhSlope : 1.0;
  return {.activation = in.activation / divisor_, .lipschitz = UpperBound(slope) / divisor_ * in.lipschitz};
}

}  // namespace bridle
