// convex: y = (1 − α)x + α·f(x);   plain: y = x + f(x).
#pragma once

#include "bridle/architecture.h"
#include "nn/enclosure.h"

namespace bridle {

bool is_convex(ResidualKind kind);

class Residual {
 public:
  Residual(ResidualKind kind, double alpha) : convex_(is_convex(kind)), alpha_(alpha) {}
  at::Tensor forward(const at::Tensor& x, const at::Tensor& branch) const;
  Bound bound(const Bound& x, const Bound& branch) const;
  Enclosure enclose(const Enclosure& x, const Enclosure& branch, const ErrorWalk& walk) const;

 private:
  bool convex_;
  double alpha_;
};

}  // namespace bridle
