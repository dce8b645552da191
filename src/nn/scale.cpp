#include "nn/scale.h"

#include <cmath>

namespace bridle {

Scale::Scale(Weights& weights, const std::string& name, double value) : value_(value) {
  if (weights.options().learnable_scales) learned_ = weights.vector(name, Role::gain, {1}, value);
}

at::Tensor Scale::forward(const at::Tensor& x) const {
  if (learned_) return x.mul(learned_->tensor.to(x.scalar_type()));
  return value_ == 1.0 ? x : x.mul(value_);
}

double Scale::value() const { return learned_ ? learned_->tensor.item<double>() : value_; }

UpperBound Scale::magnitude(Walk& walk) const {
  return learned_ ? walk.norms.largest_entry(*learned_) : UpperBound(std::abs(value_));
}

}  // namespace bridle
