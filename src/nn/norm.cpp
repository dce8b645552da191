#include "nn/norm.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "nn/fused_norm.h"
#include "nn/linear.h"

namespace bridle {

Norm::Norm(const TransformerOptions& options, Weights& weights, const std::string& name)
    : kind_(options.norm), epsilon_(options.norm_epsilon), size_(options.hidden_size) {
  switch (kind_) {
    case NormLayer::none:
    case NormLayer::tanh:
      return;
    case NormLayer::rms_norm:
    case NormLayer::layer_norm:
      gain_ = weights.vector(name + ".weight", Role::gain, {size_}, 1.0);
      if (kind_ == NormLayer::layer_norm && options.bias)
        bias_ = weights.vector(name + ".bias", Role::bias, {size_}, 0.0);
  }
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  const auto cast = [&x](const std::optional<Param>& param) {
    return param ? param->tensor.to(x.scalar_type()) : at::Tensor();
  };
  switch (kind_) {
    case NormLayer::none:
      return x;
    case NormLayer::tanh:
      return at::tanh(x);
    case NormLayer::rms_norm:
      return x.mul(x.square().mean(-1, /*keepdim=*/true).add(epsilon_).rsqrt()).mul(cast(gain_));
    case NormLayer::layer_norm:
      return at::layer_norm(x, {size_}, cast(gain_), cast(bias_), epsilon_);
  }
  throw std::logic_error("a norm without a forward pass");
}

FusedValue Norm::fuse(FusedProgram& program, const FusedValue& in) const {
  if (kind_ == NormLayer::none) return in;
  auto norm = std::make_unique<FusedNorm>(
      program,
      FusedNormOptions{
          .kind = kind_, .epsilon = epsilon_, .size = size_, .gain = gain_, .bias = bias_, .in = in});
  const FusedValue value = norm->value();
  program.add(std::move(norm));
  return value;
}

Bound Norm::bound(const Bound& in, Walk& walk) const {
  switch (kind_) {
    case NormLayer::none:
    case NormLayer::tanh:
      return in;
    case NormLayer::rms_norm:
    case NormLayer::layer_norm:
      break;
  }
  const UpperBound gain = walk.norms.largest_entry(*gain_);
  const UpperBound offset = bias_ ? walk.norms.euclidean(*bias_) * root_of_ratio(1, size_) : UpperBound(0.0);
  // 1/√ε rounded up: √(1/ε) with both operations rounded up.
  const UpperBound slope = epsilon_ > 0.0 ? gain * sqrt(UpperBound(1.0) / epsilon_) : UpperBound::unbounded();
  return {.activation = gain + offset, .lipschitz = slope * in.lipschitz};
}

// x/m with m² = |x|²/d + ε (x centred first for LayerNorm): its slope is at most 1/m, m the least in reach.
Enclosure Norm::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  const int64_t dimensions = x.error.dim();
  const at::Tensor size = walk.size(x);
  switch (kind_) {
    case NormLayer::none:
      return x;
    case NormLayer::tanh: {
      const at::Tensor error = x.error.add(size.mul(walk.sum_unit(dimensions)).mul(16.0));
      return walk.stored(forward(x.values), x.reach, raised(error));
    }
    case NormLayer::rms_norm:
    case NormLayer::layer_norm:
      break;
  }
  const bool centred = kind_ == NormLayer::layer_norm;
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
