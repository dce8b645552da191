// y = f(x)/divisor.   GeLU's derivative is at most κ = 1.128904145186 (erf form, at √2) or 1.128993068659 (tanh form), and
// |GeLU(x)| ≤ |x|: docs/theory/modules.md, statements 2 and 3. MaxMin sorts every pair of neighbours, the larger first.
#pragma once

#include "bridle/architecture.h"
#include "nn/enclosure.h"

namespace bridle {

class Activation {
 public:
  Activation(ActivationKind kind, double divisor) : kind_(kind), divisor_(divisor) {}
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in) const;
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;

 private:
  ActivationKind kind_;
  double divisor_;
};

// The largest derivative of each, rounded up.
constexpr double kGeluSlope = 1.128904145187;
constexpr double kGeluTanhSlope = 1.128993068660;

}  // namespace bridle
