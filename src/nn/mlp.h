// The multilayer perceptron: linear layers with an activation between them, the last one starting at zero:
//   x ← f(W x (+ b)),   logits = final_scale·W x (+ b).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nn/activation.h"
#include "nn/fused_pass.h"
#include "nn/linear.h"
#include "nn/scale.h"

namespace bridle {

class Mlp : public Model {
 public:
  Mlp(const MlpOptions& options, const WeightOrigin& origin);
  at::Tensor embed(const at::Tensor& pixels, Pass& pass) const override { return pixels.to(pass.dtype); }
  at::Tensor forward_from(const at::Tensor& pixels, Pass& pass) const override;
  std::string why_not_fused(const Pass& pass) const override;
  std::optional<LossAndGradients> fused_loss(const at::Tensor& pixels, const at::Tensor& targets, Pass& pass,
                                             bool gradients) const override;
  std::unique_ptr<FusedProgram> fused_program(const StepKernels& kernels) const;
  Bound bound(const UpperBound& domain, Walk& walk) const override;
  LogitEnclosure enclose(const at::Tensor& pixels, ErrorWalk& walk) const override;
  at::Tensor logit_rows() const override { return layers_.back().weight().tensor.detach(); }
  double logit_scale() const override { return options_.final_scale; }
  std::optional<ModelOptions> options() const override { return options_; }
  ModelShape shape() const override;
  ModelFlop flop(int64_t length) const override;
  PassMemory memory(const BatchShape& batch, const Pass& pass, int threads) const override;
  UpperBound input_bound(NormSource&) const override { return options_.input_bound; }

 private:
  MlpOptions options_;
  std::vector<Linear> layers_;
  std::optional<Param> logit_bias_;  // the last layer's
  Activation activation_;
  mutable FusedPasses fused_;
};

}  // namespace bridle
