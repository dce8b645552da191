// What may stand where the paper has no norm: nothing, tanh, RMSNorm, LayerNorm, CenterNorm. With ε > 0 RMSNorm and LayerNorm are
// max|g|/√ε-Lipschitz in the RMS norm, and unbounded with ε = 0. CenterNorm, (x − mean)·d/(d − 1)∘g + b, is linear:
// d/(d − 1)·max|g|.
#pragma once

#include <optional>
#include <string>

#include "nn/enclosure.h"
#include "nn/fused_program.h"
#include "nn/weights.h"

namespace bridle {

class Norm {
 public:
  Norm(const TransformerOptions& options, Weights& weights, const std::string& name);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;
  FusedValue fuse(FusedProgram& program, const FusedValue& in) const;

 private:
  double center_scale() const { return static_cast<double>(size_) / static_cast<double>(size_ - 1); }
  Enclosure enclose_center(const Enclosure& x, const ErrorWalk& walk) const;
  double largest_gain() const;
  double offset() const;  // |bias|

  NormLayer kind_;
  double epsilon_;
  int64_t size_;
  std::optional<Param> gain_;
  std::optional<Param> bias_;
};

// x/√(mean of x² + ε) over the last dimension; its slope is at most 1/√ε.
UpperBound rms_slope(double epsilon);
at::Tensor divided_by_rms(const at::Tensor& x, double epsilon);
Enclosure enclose_divided_by_rms(const Enclosure& x, double epsilon, const ErrorWalk& walk);

}  // namespace bridle
