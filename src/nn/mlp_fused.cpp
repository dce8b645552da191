// The fused pass of a multilayer perceptron: which models it knows, and its program.
#include <fmt/format.h>

#include "nn/fused_embedding.h"
#include "nn/fused_linear.h"
#include "nn/fused_loss.h"
#include "nn/fused_norm.h"
#include "nn/mlp.h"

namespace bridle {

// An allow-list over every field, as Transformer's.
std::string Mlp::why_not_fused(const Pass& pass) const {
  const auto& [hidden_sizes, layer_sizes, activation, bias, input_bound, initialization, final_scale] =
      options_;
  if (bias) return "model.bias";
  return is_fused(activation) ? why_not_fused_pass(pass) : "model.mlp_activation";
}

// A segment per layer: each has room to itself, and all threads share its products.
std::unique_ptr<FusedProgram> Mlp::fused_program(const StepKernels& kernels) const {
  auto program = std::make_unique<FusedProgram>(params_, kernels);
  FusedValue x{.values = program->matrix(options_.layer_sizes.front())};
  program->add(std::make_unique<FusedVectors>(x.values, options_.layer_sizes.front()));
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    program->cut_backward();
    const Param& weight = layers_[i].weight();
    const int64_t size = weight.tensor.size(0);
    const FusedBuffer out = program->matrix(size), d_out = program->matrix(size),
                      slope = program->matrix(size);
    program->add(std::make_unique<FusedLinear>(*program, FusedLinearOptions{.weights = {weight},
                                                                            .left = FusedWeight::Left::out,
                                                                            .in = x,
                                                                            .out = out,
                                                                            .d_out = d_out,
                                                                            .slope = slope,
                                                                            .activation = activation_.kind(),
                                                                            .share = activation_.share()}));
    program->add(std::make_unique<FusedStatistics>(fmt::format("model.layers.{}", i), out, size,
                                                   FusedStatistics::Of::matrix));
    x = activation_.fused(out, d_out, slope);
  }
  program->cut_forward();
  program->cut_backward();
  program->add(std::make_unique<FusedLoss>(
      *program, FusedLossOptions{.head = layers_.back().weight(),
                                 .outputs = options_.layer_sizes.back(),
                                 .left = FusedWeight::Left::out,
                                 .in = x,
                                 .scale = static_cast<float>(options_.final_scale),
                                 .name = fmt::format("model.layers.{}", layers_.size() - 1)}));
  program->finish();
  return program;
}

std::optional<LossAndGradients> Mlp::fused_loss(const at::Tensor& pixels, const at::Tensor& targets,
                                                Pass& pass, bool gradients) const {
  const bool classes = !targets.is_floating_point();
  if (!can_fuse(pass) || !classes || pixels.scalar_type() != at::kFloat) return std::nullopt;
  return fused_.of(*fused_values(pass)).run_vectors(pixels, targets, shape(), pass, gradients);
}

}  // namespace bridle
