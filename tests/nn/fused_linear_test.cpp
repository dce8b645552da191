// Programs put together by hand, against LibTorch.
#include "nn/fused_linear.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/activation.h"
#include "nn/fused_embedding.h"
#include "nn/fused_loss.h"
#include "nn/fused_pass.h"
#include "support.h"

namespace bridle {
namespace {

Param weight(const char* name, at::IntArrayRef shape, uint64_t seed, double deviation) {
  return {.name = name, .tensor = test::normal(shape, seed, at::kFloat).mul(deviation).requires_grad_(true)};
}

TEST(FusedLinear, WithBiasesSeveralWeightsAndALearnedScaleAgreesWithLibTorch) {
  // [12] → two layers of 20 and 40 side by side, through GeLU → scale·W + b → 5 classes, whose head begins with a bias.
  const Param first = weight("first", {20, 12}, 1, 0.3), second = weight("second", {40, 12}, 2, 0.3);
  const Param first_bias = weight("first_bias", {20}, 3, 1.0),
              second_bias = weight("second_bias", {40}, 4, 1.0);
  const Param middle = weight("middle", {16, 96}, 5, 0.2), middle_bias = weight("middle_bias", {16}, 6, 1.0);
  const Param scale = weight("scale", {1}, 7, 1.0), head = weight("head", {5, 16}, 8, 0.3);
  const std::vector<Param> params = {first,  second,      first_bias, second_bias,
                                     middle, middle_bias, scale,      head};
  const at::Tensor x = test::normal({70, 12}, 9, at::kFloat);
  const at::Tensor targets = test::normal({70}, 10).mul(1e4).to(at::kLong).remainder(5);

  // Parts stand padded in the buffer: columns 0 … 19 and 32 … 71.
  const at::Tensor both = at::gelu(at::linear(x, first.tensor, first_bias.tensor), "none");
  const at::Tensor other = at::gelu(at::linear(x, second.tensor, second_bias.tensor), "none");
  const at::Tensor hidden = at::linear(both, middle.tensor.narrow(1, 0, 20))
                                .add(at::linear(other, middle.tensor.narrow(1, 32, 40)))
                                .mul(scale.tensor)
                                .add(middle_bias.tensor);
  const at::Tensor loss = at::cross_entropy_loss(at::linear(hidden, head.tensor), targets);
  std::vector<at::Tensor> tensors;
  for (const Param& param : params) tensors.push_back(param.tensor);
  const auto expected = torch::autograd::grad({loss}, tensors);

  auto program = std::make_unique<FusedProgram>(params, step_kernels());
  const FusedBuffer in = program->matrix(12), wide = program->matrix(96), d_wide = program->matrix(96),
                    slope = program->matrix(96), out = program->matrix(16), d_out = program->matrix(16);
  program->add(std::make_unique<FusedVectors>(in, 12));
  program->add(
      std::make_unique<FusedLinear>(*program, FusedLinearOptions{.weights = {first, second},
                                                                 .biases = {first_bias, second_bias},
                                                                 .in = {.values = in},
                                                                 .out = wide,
                                                                 .d_out = d_wide,
                                                                 .slope = slope,
                                                                 .activation = ActivationKind::gelu}));
  program->add(std::make_unique<FusedLinear>(
      *program, FusedLinearOptions{.weights = {middle},
                                   .biases = {middle_bias},
                                   .in = Activation(ActivationKind::gelu, 1.0).fused(wide, d_wide, slope),
                                   .learned_scale = scale,
                                   .out = out,
                                   .d_out = d_out}));
  program->cut_forward();
  program->add(std::make_unique<FusedLoss>(
      *program, FusedLossOptions{.head = head, .outputs = 5, .in = {.values = out, .gradient = d_out}}));
  program->finish();
  FusedPass pass(std::move(program));
  Pass options;
  const LossAndGradients seen = pass.run_vectors(
      x, targets, {.input = InputKind::vectors, .size = 12, .outputs = 5}, options, /*gradients=*/true);
  EXPECT_NEAR(seen.loss, loss.item<double>(), 0.01 * loss.item<double>());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(seen.gradients[i].sub(expected[i]).norm().item<double>(),
              0.03 * expected[i].norm().item<double>())
        << params[i].name;
}

TEST(FusedLinear, AWeightWithoutAnOperationIsAnErrorAndNotAZeroGradient) {
  const Param head = weight("head", {3, 8}, 1, 0.3), forgotten = weight("forgotten", {8, 8}, 2, 0.3);
  auto program = std::make_unique<FusedProgram>(std::vector<Param>{head, forgotten}, step_kernels());
  const FusedBuffer in = program->matrix(8);
  program->add(std::make_unique<FusedVectors>(in, 8));
  program->cut_forward();
  program->add(std::make_unique<FusedLoss>(
      *program, FusedLossOptions{.head = head, .outputs = 3, .in = {.values = in}}));
  program->finish();
  FusedPass pass(std::move(program));
  Pass options;
  const at::Tensor x = test::normal({4, 8}, 3, at::kFloat),
                   targets = test::normal({4}, 4).to(at::kLong).mul(0);
  const ModelShape shape{.input = InputKind::vectors, .size = 8, .outputs = 3};
  EXPECT_NO_THROW(pass.run_vectors(x, targets, shape, options, false));
  EXPECT_THROW(pass.run_vectors(x, targets, shape, options, true), std::logic_error);
}

}  // namespace
}  // namespace bridle
