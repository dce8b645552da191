#include "nn/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>

namespace bridle {

bool Activation::known(const std::string& name) {
  return name == "gelu" || name == "gelu_tanh" || name == "relu";
}

Activation::Activation(const std::string& name, double divisor)
    : kind_(name == "gelu"   ? Kind::gelu
            : name == "relu" ? Kind::relu
                             : Kind::gelu_tanh),
      divisor_(divisor) {}

at::Tensor Activation::forward(const at::Tensor& x) const {
  const at::Tensor y = kind_ == Kind::relu ? at::relu(x) : at::gelu(x, kind_ == Kind::gelu ? "none" : "tanh");
  return divisor_ == 1.0 ? y : y.div(divisor_);
}

Bound Activation::bound(const Bound& in) const {
  const double slope = kind_ == Kind::relu ? 1.0 : kind_ == Kind::gelu ? kGeluSlope : kGeluTanhSlope;
  return {.activation = in.activation / divisor_, .lipschitz = UpperBound(slope) / divisor_ * in.lipschitz};
}

}  // namespace bridle
