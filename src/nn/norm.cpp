#include "nn/norm.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/tanh.h>

#include "nn/linear.h"

namespace bridle {

bool Norm::known(const std::string& name) {
  return name == "none" || name == "tanh" || name == "rms_norm" || name == "layer_norm";
}

Norm::Norm(Weights& weights, const std::string& name)
    : kind_(weights.options().norm == "none"       ? Kind::none
            : weights.options().norm == "tanh"     ? Kind::tanh
            : weights.options().norm == "rms_norm" ? Kind::rms_norm
                                                   : Kind::layer_norm),
      epsilon_(weights.options().norm_epsilon),
      size_(weights.options().hidden_size) {
  if (kind_ == Kind::none || kind_ == Kind::tanh) return;
  gain_ = weights.vector(name + ".weight", Role::gain, {size_}, 1.0);
  if (kind_ == Kind::layer_norm && weights.options().bias)
    bias_ = weights.vector(name + ".bias", Role::bias, {size_}, 0.0);
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  if (kind_ == Kind::none) return x;
  if (kind_ == Kind::tanh) return at::tanh(x);
  const at::Tensor gain = gain_->tensor.to(x.scalar_type());
  if (kind_ == Kind::rms_norm)
    return x.mul(x.square().mean(-1, /*keepdim=*/true).add(epsilon_).rsqrt()).mul(gain);
  return at::layer_norm(x, {size_}, gain, bias_ ? bias_->tensor.to(x.scalar_type()) : at::Tensor(), epsilon_);
}

Bound Norm::bound(const Bound& in, Walk& walk) const {
  if (kind_ == Kind::none || kind_ == Kind::tanh) return in;
  const UpperBound gain = walk.norms.largest_entry(*gain_);
  const UpperBound offset = bias_ ? walk.norms.euclidean(*bias_) * root_of_ratio(1, size_) : UpperBound(0.0);
  // 1/√ε rounded up: √(1/ε) with both operations rounded up.
  const UpperBound slope = epsilon_ > 0.0 ? gain * sqrt(UpperBound(1.0) / epsilon_) : UpperBound::unbounded();
  return {.activation = gain + offset, .lipschitz = slope * in.lipschitz};
}

}  // namespace bridle
