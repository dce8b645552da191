// y = f(x)/divisor.   GeLU's derivative is at most κ = 1.128904145186 (erf form, at √2) or 1.128993068659 (tanh form), and
// |GeLU(x)| ≤ |x|: docs/theory/modules.md, statements 2 and 3. MaxMin sorts every pair of neighbours, the larger first.
#pragma once

#include <string>

#include "nn/enclosure.h"

namespace bridle {

class Activation {
 public:
  Activation(const std::string& name, double divisor);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in) const;
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;

 private:
  double slope() const;  // the largest
  enum class Kind { gelu, gelu_tanh, relu, maxmin };
  Kind kind_;
  double divisor_;
};

// The largest derivative of each, rounded up.
constexpr double kGeluSlope = 1.128904145187;
constexpr double kGeluTanhSlope = 1.128993068660;

}  // namespace bridle
