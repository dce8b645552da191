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

const char* word(NormLayer layer) {
  switch (layer) {
    case NormLayer::none:
      return "none";
    case NormLayer::tanh:
      return "tanh";
    case NormLayer::rms_norm:
      return "rms_norm";
    case NormLayer::layer_norm:
      return "layer_norm";
    case NormLayer::center_norm:
      return "center_norm";
  }
  return nullptr;
}

Norm::Norm(const TransformerOptions& options, Weights& weights, const std::string& name)
    : kind_(options.norm), epsilon_(options.norm_epsilon), size_(options.hidden_size) {
  const auto gain = [&] {
    if (options.norm_gain) gain_ = weights.vector(name + ".weight", Role::gain, {size_}, 1.0);
  };
  const auto bias = [&] {
    if (options.bias) bias_ = weights.vector(name + ".bias", Role::bias, {size_}, 0.0);
  };
  switch (kind_) {
    case NormLayer::none:
    case NormLayer::tanh:
      return;
    case NormLayer::rms_norm:
      gain();
      return;
    case NormLayer::layer_norm:
    case NormLayer::center_norm:
      gain();
      bias();
  }
}

at::Tensor divided_by_rms(const at::Tensor& x, double epsilon) {
  return x.mul(x.square().mean(-1, /*keepdim=*/true).add(epsilon).rsqrt());
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  const auto cast = [&x](const std::optional<Param>& param) {
    return param ? param->tensor.to(x.scalar_type()) : at::Tensor();
  };
  const auto affine = [&](const at::Tensor& normal) {
    const at::Tensor scaled = gain_ ? normal.mul(cast(gain_)) : normal;
    return bias_ ? scaled.add(cast(bias_)) : scaled;
  };
  switch (kind_) {
    case NormLayer::none:
      return x;
    case NormLayer::tanh:
      return at::tanh(x);
    case NormLayer::rms_norm:
      return affine(divided_by_rms(x, epsilon_));
    case NormLayer::layer_norm:
      return at::layer_norm(x, {size_}, cast(gain_), cast(bias_), epsilon_);
    case NormLayer::center_norm:
      return affine(x.sub(x.mean(-1, /*keepdim=*/true)).mul(center_scale()));
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
  const auto gain = [&] { return gain_ ? walk.norms.largest_entry(*gain_) : UpperBound(1.0); };
  const auto offset = [&] {
    return bias_ ? walk.norms.euclidean(*bias_) * root_of_ratio(1, size_) : UpperBound(0.0);
  };
  switch (kind_) {
    case NormLayer::none:
    case NormLayer::tanh:
      return in;
    case NormLayer::rms_norm:
    case NormLayer::layer_norm: {
      const UpperBound largest = gain();
      return {.activation = largest + offset(), .lipschitz = largest * rms_slope(epsilon_) * in.lipschitz};
    }
    case NormLayer::center_norm: {
      const UpperBound scale = UpperBound(static_cast<double>(size_)) / static_cast<double>(size_ - 1);
      return in.affine(gain() * scale, offset());
    }
  }
  throw std::logic_error("a norm without a bound");
}

UpperBound rms_slope(double epsilon) {
  // Both operations are rounded up.
  return epsilon > 0.0 ? sqrt(UpperBound(1.0) / epsilon) : UpperBound::unbounded();
}

double Norm::largest_gain() const {
  return gain_ ? gain_->tensor.detach().to(at::kDouble).abs().max().item<double>() : 1.0;
}

double Norm::offset() const {
  return bias_ ? row_lengths(bias_->tensor.detach().to(at::kDouble)).item<double>() : 0.0;
}

namespace {

// What is done to x/m, m² = |x|²/d + ε, and to it after that.
struct Quotient {
  double epsilon = 0.0;
  bool centred = false;  // x less its mean
  double gain = 1.0, offset = 0.0;
};

// x/m's slope is at most 1/m, m the least in reach. `values` is what the float64 pass has computed.
Enclosure enclose_quotient(const Enclosure& x, const Quotient& q, const at::Tensor& values,
                           const ErrorWalk& walk) {
  const int64_t dimensions = x.error.dim(), entries = x.values.size(-1);
  const at::Tensor size = walk.size(x);
  const auto d = static_cast<double>(entries);
  const at::Tensor deviation = q.centred ? x.values.sub(x.values.mean(-1, /*keepdim=*/true)) : x.values;
  const at::Tensor far = size.sub(row_lengths(x.values)).clamp_min(0.0).add(size.mul(0x1p-18));
  const at::Tensor near =
      row_lengths(deviation).sub(far).clamp_min(0.0);  // |deviation| in reach is not below this
  const at::Tensor least_square = near.square().div(d).add(q.epsilon);
  const at::Tensor slope = raised(least_square.rsqrt()).mul(q.gain);
  // The mean of squares errs by `square`, which moves 1/m by at most square/m³ while square ≤ m²/2.
  const at::Tensor sums = walk.sum_error(2 * entries + 16, dimensions);
  const at::Tensor units = walk.unit(dimensions).mul(12.0);
  const at::Tensor square = raised(size.square()
                                       .div(d)
                                       .mul(sums.add(q.centred ? at::zeros_like(units) : units))
                                       .add(walk.least(dimensions).mul(4.0)));
  const at::Tensor steady = square.le(least_square.mul(0.5));
  const at::Tensor by_square = size.mul(square).div(least_square).mul(slope);
  const at::Tensor by_steps =
      size.mul(slope).mul(sums.mul(4.0).add(units)).add(walk.unit(dimensions).mul(4.0 * q.offset));
  // x is flushed to zero, or x/m before it meets the gain.
  const at::Tensor flushed = slope.add(q.gain + 1.0).mul(walk.least(dimensions)).mul(4.0 * std::sqrt(d));
  at::Tensor error = x.error.mul(slope).add(by_square).add(by_steps).add(flushed);
  error = error.add(walk.scalar_error(q.epsilon, dimensions));
  error = error.masked_fill(steady.logical_not(), std::numeric_limits<double>::infinity());
  return walk.stored(values, raised(x.reach.mul(slope)),
                     walk.guarded(raised(error), size.square().add(size).add(q.gain + q.offset)));
}

}  // namespace

Enclosure enclose_divided_by_rms(const Enclosure& x, double epsilon, const ErrorWalk& walk) {
  return enclose_quotient(x, {.epsilon = epsilon}, divided_by_rms(x.values, epsilon), walk);
}

// A mean, a difference, a product with a scalar that is rounded, gain and bias; subtracting the mean makes no vector longer.
Enclosure Norm::enclose_center(const Enclosure& x, const ErrorWalk& walk) const {
  const int64_t dimensions = x.error.dim();
  const double root = std::sqrt(static_cast<double>(size_));
  const double scale = center_scale() * (1.0 + 0x1p-50) * largest_gain();
  const at::Tensor rounding =
      walk.sum_error(2 * size_ + 16, dimensions).mul(2.0).add(walk.unit(dimensions).mul(16.0));
  const at::Tensor size = walk.size(x);
  at::Tensor error = x.error.mul(scale).add(size.mul(scale).mul(rounding));
  error = error.add(walk.unit(dimensions).mul(4.0 * offset()));
  error = error.add(walk.least(dimensions).mul(8.0 * root * (scale + center_scale() + 1.0)));
  error = walk.guarded(raised(error), raised(size.mul(scale + center_scale()).add(offset())));
  return walk.stored(forward(x.values), raised(x.reach.mul(scale)), error);
}

Enclosure Norm::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  switch (kind_) {
    case NormLayer::none:
      return x;
    case NormLayer::tanh: {
      const int64_t dimensions = x.error.dim();
      const at::Tensor error = x.error.add(walk.size(x).mul(walk.sum_unit(dimensions)).mul(16.0));
      return walk.stored(forward(x.values), x.reach, raised(error));
    }
    case NormLayer::center_norm:
      return enclose_center(x, walk);
    case NormLayer::rms_norm:
    case NormLayer::layer_norm:
      break;
  }
  return enclose_quotient(x,
                          {.epsilon = epsilon_,
                           .centred = kind_ == NormLayer::layer_norm,
                           .gain = largest_gain(),
                           .offset = offset()},
                          forward(x.values), walk);
}

}  // namespace bridle
