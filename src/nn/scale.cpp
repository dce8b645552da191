#include "nn/scale.h"

#include <cmath>

namespace bridle {

Scale::Scale(Weights& weights, const std::string& name, double value, bool is_learned) : value_(value) {
  if (is_learned) learned_ = weights.vector(name, Role::gain, {1}, value);
}

at::Tensor Scale::forward(const at::Tensor& x) const {
  if (learned_) return x.mul(learned_->tensor.to(x.scalar_type()));
  return value_ == 1.0 ? x : x.mul(value_);
}

double Scale::value() const { return learned_ ? learned_->tensor.item<double>() : value_; }

// s is cast to the program's precision, and the product is rounded.
Enclosure Scale::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  if (!learned_ && value_ == 1.0) return x;
  const double s = std::abs(value());
  const int64_t dimensions = x.error.dim();
  const double root = std::sqrt(static_cast<double>(x.values.size(-1)));
  const at::Tensor cast = walk.size(x).mul(walk.unit(dimensions)).mul(2.0);
  const at::Tensor error = x.error.add(cast).add(walk.least(dimensions).mul(root)).mul(s);
  return walk.stored(forward(x.values), raised(x.reach.mul(s)),
                     raised(error.add(walk.scalar_error(s, dimensions))));
}

UpperBound Scale::magnitude(Walk& walk) const {
  return learned_ ? walk.norms.largest_entry(*learned_) : UpperBound(std::abs(value_));
}

}  // namespace bridle
