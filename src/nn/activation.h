// y = f(x)/divisor.   GeLU's derivative is at most κ = 1.128904145186 (erf form, at √2) or 1.128993068659 (tanh form), and
// |GeLU(x)| ≤ |x|; SiLU's at most 1.099839320128867: docs/theory/modules.md, statements 2 and 3. MaxMin sorts every pair of neighbours, the larger first. ReLU² has a
// slope that grows with x, and a bound as far as x is bounded.
#pragma once

#include "bridle/architecture.h"
#include "nn/enclosure.h"
#include "nn/fused_program.h"

namespace bridle {

class Activation {
 public:
  Activation(ActivationKind kind, double divisor) : kind_(kind), divisor_(divisor) {}
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, int64_t size) const;        // of vectors with so many entries
  UpperBound largest_entry(const UpperBound& most) const;  // |f(x)/divisor| of any |x| ≤ most
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;
  // What it gives, as the next product of the fused pass sees it; `slope` is what the kernel left for the way back.
  FusedValue fused(FusedBuffer values, FusedBuffer gradient, FusedBuffer slope) const;
  ActivationKind kind() const { return kind_; }
  float share() const { return static_cast<float>(1.0 / divisor_); }  // as the fused pass has it

 private:
  ActivationKind kind_;
  double divisor_;
};

bool is_fused(ActivationKind kind);       // whether the fused pass has it
bool has_slope_one(ActivationKind kind);  // no slope is above 1, at any x

// The largest derivative of each, rounded up.
constexpr double kGeluSlope = 1.128904145187;
constexpr double kGeluTanhSlope = 1.128993068660;
constexpr double kSiluSlope = 1.099839320129;

}  // namespace bridle
