// y = W_down · f(W_up · x)/divisor, f GeLU as a rule; or, gated, y = W_down · (f(W_gate · x)/divisor ∘ W_up · x), which is
// SwiGLU where f is SiLU. The bound of a gate is statement 16 of docs/theory/modules.md.
#pragma once

#include <optional>

#include "nn/activation.h"
#include "nn/fused_program.h"
#include "nn/linear.h"

namespace bridle {

class FeedForward {
 public:
  FeedForward(const TransformerOptions& options, Weights& weights, const std::string& name);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;
  void fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const;  // without a gate

 private:
  Bound gated_bound(const Bound& in, Walk& walk) const;

  std::optional<Linear> gate_;
  Linear up_;
  Linear down_;
  Activation activation_;
};

}  // namespace bridle
