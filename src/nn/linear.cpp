#include "nn/linear.h"

#include <ATen/ops/linear.h>

namespace bridle {

Linear::Linear(Weights& weights, const std::string& name, const LinearOptions& options)
    : weight_(weights.matrix(name + ".weight", options.role,
                             {options.out, options.in, options.heads, options.fan_in, options.apart})) {
  if (options.bias) bias_ = weights.vector(name + ".bias", Role::bias, {options.out}, 0.0);
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const auto cast = [&x](const Param& param) { return param.tensor.to(x.scalar_type()); };
  return bias_ ? at::linear(x, cast(weight_), cast(*bias_)) : at::linear(x, cast(weight_));
}

Bound Linear::bound(const Bound& in, Walk& walk) const {
  const int64_t rows = weight_.tensor.size(0);
  const int64_t columns = weight_.tensor.size(1);
  const UpperBound gain = walk.norms.matrix(weight_) * root_of_ratio(columns, rows);
  return in.affine(gain, bias_ ? walk.norms.euclidean(*bias_) * root_of_ratio(1, rows) : 0.0);
}

UpperBound one_logit(const UpperBound& stretch, const UpperBound& largest_row_rms, int64_t in) {
  return stretch * largest_row_rms * static_cast<double>(in);
}

UpperBound root_of_ratio(int64_t a, int64_t b) {
  return sqrt(UpperBound(static_cast<double>(a)) / static_cast<double>(b));
}

}  // namespace bridle
