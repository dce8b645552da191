#include "nn/norm.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

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

// x/m with m² = |x|²/d + ε (x centred first for LayerNorm): its slope is at most 1/m, m the least in reach.
Enclosure Norm::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  if (kind_ == Kind::none) return x;
  const int64_t dimensions = x.error.dim();
  const at::Tensor size = walk.size(x);
  if (kind_ == Kind::tanh) {
    const at::Tensor error = x.error.add(size.mul(walk.sum_unit(dimensions)).mul(16.0));
    return walk.stored(forward(x.values), x.reach, raised(error));
  }
  const bool centred = kind_ == Kind::layer_norm;
  const auto d = static_cast<double>(size_);
  const at::Tensor deviation = centred ? x.values.sub(x.values.mean(-1, /*keepdim=*/true)) : x.values;
  const at::Tensor far = size.sub(row_lengths(x.values)).clamp_min(0.0).add(size.mul(0x1p-18));
  const at::Tensor near =
      row_lengths(deviation).sub(far).clamp_min(0.0);  // |deviation| in reach is not below this
  const at::Tensor least_square = near.square().div(d).add(epsilon_);
  const double gain = gain_->tensor.detach().to(at::kDouble).abs().max().item<double>();
  const double offset = bias_ ? row_lengths(bias_->tensor.detach().to(at::kDouble)).item<double>() : 0.0;
  const at::Tensor slope = raised(least_square.rsqrt()).mul(gain);
  // The mean of squares errs by `square`, which moves 1/m by at most square/m³ while square ≤ m²/2.
  const at::Tensor sums = walk.sum_error(2 * size_ + 16, dimensions);
  const at::Tensor units = walk.unit(dimensions).mul(12.0);
  const at::Tensor square = raised(size.square()
                                       .div(d)
                                       .mul(sums.add(centred ? at::zeros_like(units) : units))
                                       .add(walk.least(dimensions).mul(4.0)));
  const at::Tensor steady = square.le(least_square.mul(0.5));
  const at::Tensor by_square = size.mul(square).div(least_square).mul(slope);
  const at::Tensor by_steps =
      size.mul(slope).mul(sums.mul(4.0).add(units)).add(walk.unit(dimensions).mul(4.0 * offset));
  // x is flushed to zero, or x/m before it meets the gain.
  const at::Tensor flushed = slope.add(gain + 1.0).mul(walk.least(dimensions)).mul(4.0 * std::sqrt(d));
  at::Tensor error = x.error.mul(slope).add(by_square).add(by_steps).add(flushed);
  error = error.add(walk.scalar_error(epsilon_, dimensions));
  error = error.masked_fill(steady.logical_not(), std::numeric_limits<double>::infinity());
  return walk.stored(forward(x.values), raised(x.reach.mul(slope)),
                     walk.guarded(raised(error), size.square().add(size).add(gain + offset)));
}

}  // namespace bridle
