// y = factor·W·x with what follows: stored, through an activation, or added to the residual stream. Several weights that share
// their input stand side by side (q, k and v).
#pragma once

#include "nn/fused_program.h"

namespace bridle {

struct FusedLinearOptions {
  std::vector<Param> weights = {};
  FusedWeight::Left left = FusedWeight::Left::in;  // the narrower side, as a rule
  FusedValue in = {};
  float factor = 1.0F;
  // What it gives, one of these:
  FusedBuffer out = {}, d_out = {};  // bfloat16, and its gradient
  FusedBuffer slope = {};            // through an activation: its slopes
  ActivationKind activation = ActivationKind::relu;
  float share = 1.0F;        // of the activation
  FusedBuffer stream = {};   // added to keep·stream; `out` is a copy of that
  float keep = 0.0F;
};

class FusedLinear : public FusedOperation {
 public:
  FusedLinear(FusedProgram& program, FusedLinearOptions options);
  Uses uses() const override;
  std::vector<FusedWeight*> weights() override { return {&weight_}; }
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void add_gradients(FusedGroup& group) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  FusedLinearOptions options_;
  FusedWeight weight_;
  FusedSumsPlace sums_;
  std::vector<size_t> places_;  // of the weights among the model's params
};

// What an activation gives, as the next product sees it.
FusedValue activated(FusedBuffer values, FusedBuffer gradient, FusedBuffer slope, ActivationKind kind, float share);

}  // namespace bridle
