#include "nn/activation.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>

#include <cmath>
#include <stdexcept>

namespace bridle {

const char* word(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return "gelu";
    case ActivationKind::gelu_tanh:
      return "gelu_tanh";
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::maxmin:
      return "maxmin";
    case ActivationKind::abs:
      return "abs";
    case ActivationKind::relu_squared:
      return "relu_squared";
    case ActivationKind::tanh:
      return "tanh";
    case ActivationKind::silu:
      return "silu";
  }
  return nullptr;
}

bool is_fused(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
    case ActivationKind::gelu_tanh:
    case ActivationKind::relu:
    case ActivationKind::maxmin:
    case ActivationKind::abs:
    case ActivationKind::relu_squared:
      return true;
    case ActivationKind::tanh:
    case ActivationKind::silu:
      return false;
  }
  return false;
}

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
    case ActivationKind::abs:
      return at::abs(x);
    case ActivationKind::relu_squared:
      return at::relu(x).square();
    case ActivationKind::tanh:
      return at::tanh(x);
    case ActivationKind::silu:
      return at::silu(x);
  }
  throw std::logic_error("an activation without a forward pass");
}

// |f(x)| ≤ gain·|x| and |f′(x)| ≤ slope; both times the largest |x| where it says so.
struct Growth {
  double gain, slope;
  bool times_largest = false;
};

Growth growth_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return {1.0, kGeluSlope};
    case ActivationKind::gelu_tanh:
      return {1.0, kGeluTanhSlope};
    case ActivationKind::relu:
    case ActivationKind::maxmin:
    case ActivationKind::abs:
    case ActivationKind::tanh:
      return {1.0, 1.0};
    case ActivationKind::silu:
      return {1.0, kSiluSlope};
    case ActivationKind::relu_squared:
      return {1.0, 2.0, true};
  }
  throw std::logic_error("an activation without a bound");
}

// Computed without rounding in every precision.
bool is_exact(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
    case ActivationKind::gelu_tanh:
    case ActivationKind::relu_squared:
    case ActivationKind::tanh:
    case ActivationKind::silu:
      return false;
    case ActivationKind::relu:
    case ActivationKind::maxmin:
    case ActivationKind::abs:
      return true;
  }
  throw std::logic_error("an activation without a forward error");
}

}  // namespace

bool has_slope_one(ActivationKind kind) {
  const Growth growth = growth_of(kind);
  return growth.slope <= 1.0 && !growth.times_largest;
}

FusedValue Activation::fused(FusedBuffer values, FusedBuffer gradient, FusedBuffer slope) const {
  FusedValue value{.values = values, .gradient = gradient, .slope = slope};
  switch (kind_) {
    case ActivationKind::gelu:
    case ActivationKind::gelu_tanh:
    case ActivationKind::relu:
    case ActivationKind::abs:
    case ActivationKind::relu_squared:
      value.epilogue = Epilogue::times;
      return value;
    case ActivationKind::maxmin:  // its slopes say only which pairs changed places
      value.epilogue = Epilogue::unsort;
      value.gain = share();
      return value;
    case ActivationKind::tanh:
    case ActivationKind::silu:
      break;  // not fused
  }
  throw std::logic_error("an activation without a way back");
}

at::Tensor Activation::forward(const at::Tensor& x) const {
  const at::Tensor y = applied(kind_, x);
  return divisor_ == 1.0 ? y : y.div(divisor_);
}

// No entry of a vector is larger than its length, √size times its RMS.
Bound Activation::bound(const Bound& in, int64_t size) const {
  const Growth growth = growth_of(kind_);
  const UpperBound largest =
      growth.times_largest ? sqrt(UpperBound(static_cast<double>(size))) * in.activation : UpperBound(1.0);
  return {.activation = largest * growth.gain * in.activation / divisor_,
          .lipschitz = largest * growth.slope / divisor_ * in.lipschitz};
}

UpperBound Activation::largest_entry(const UpperBound& most) const {
  const Growth growth = growth_of(kind_);
  return (growth.times_largest ? most : UpperBound(1.0)) * growth.gain * most / divisor_;
}

// What is not exact errs by a few units of its argument, times its gain.
Enclosure Activation::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  const at::Tensor values = forward(x.values);
  const bool exact = is_exact(kind_);
  if (exact && divisor_ == 1.0) return {values, x.reach, x.error};
  const int64_t dimensions = x.error.dim();
  const double root = std::sqrt(static_cast<double>(values.size(-1)));
  const at::Tensor size = walk.size(x);
  const Growth growth = growth_of(kind_);
  const at::Tensor largest = growth.times_largest ? size : at::ones_like(size);
  const at::Tensor gain = largest.mul(growth.gain), slope = largest.mul(growth.slope);
  at::Tensor units = walk.unit(dimensions).mul(2.0);  // the divisor is cast
  if (!exact) units = units.add(walk.sum_unit(dimensions).mul(32.0)).add(walk.unit(dimensions).mul(8.0));
  at::Tensor error = x.error.mul(slope)
                         .add(size.mul(gain).mul(units))
                         .add(walk.least(dimensions).mul(4.0 * root))
                         .add(walk.scalar_error(divisor_, dimensions));
  error = walk.guarded(raised(error.div(divisor_)), raised(size.mul(gain)));
  return walk.stored(values, raised(x.reach.mul(slope).div(divisor_)), error);
}

}  // namespace bridle
