// A feed-forward layer whose skip is a part of its last matrix, as in quadrature mixing (nn/mixing.h):
//   y = M·[c₀x; c₁·f(Ux + b)/(√(n/d)·divisor)], n entries of f
// Stretch ≤ σ(M)·|c|·max(1, stretch of f(Ux + b)/divisor, RMS → RMS): docs/theory/modules.md, statement 15.
#pragma once

#include <string>

#include "nn/activation.h"
#include "nn/linear.h"

namespace bridle {

class QuadratureFeedForward {
 public:
  QuadratureFeedForward(const TransformerOptions& options, Weights& weights, const std::string& name);
  at::Tensor forward(const at::Tensor& x, Pass& pass) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;
  // It takes the stream's place: `end` keeps nothing of what was there.
  void fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const;

 private:
  int64_t size_, inner_;
  double dropout_, drop_path_;  // of what f's part of M gives
  Activation activation_;       // its divisor makes vectors as long as those of tokens
  Linear up_;
  Param coefficients_;  // [2]: c
  Linear output_;       // M
};

}  // namespace bridle
