#include "nn/fused_loss.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/one_hot.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/fused_embedding.h"
#include "nn/fused_pass.h"
#include "support.h"

namespace bridle {
namespace {

// A head alone: margin, bias, padded rows, scale; fixed or learned.
TEST(FusedLoss, AgreesWithLibTorch) {
  for (const bool learned : {false, true}) {
    const Param head{.name = "head", .tensor = test::normal({11, 24}, 1, at::kFloat).requires_grad_(true)};
    const Param bias{.name = "bias", .tensor = test::normal({9}, 2, at::kFloat).requires_grad_(true)};
    const Param scale{.name = "scale", .tensor = test::normal({1}, 3, at::kFloat).requires_grad_(true)};
    std::vector<Param> params = {head, bias};
    if (learned) params.push_back(scale);
    const at::Tensor x = test::normal({50, 24}, 4, at::kFloat).to(at::kBFloat16).to(at::kFloat);
    const at::Tensor targets = test::normal({50}, 5).mul(1e4).to(at::kLong).remainder(9);
    const at::Tensor products = at::linear(x, head.tensor.narrow(0, 0, 9));
    const at::Tensor logits = (learned ? products.mul(scale.tensor) : products.mul(0.7)).add(bias.tensor);
    const at::Tensor loss = at::cross_entropy_loss(logits.sub(at::one_hot(targets, 9).mul(0.5)), targets);
    std::vector<at::Tensor> tensors;
    for (const Param& param : params) tensors.push_back(param.tensor);
    const auto expected = torch::autograd::grad({loss}, tensors);

    auto program = std::make_unique<FusedProgram>(params, step_kernels());
    const FusedBuffer in = program->matrix(24);
    program->add(std::make_unique<FusedVectors>(in, 24));
    program->cut_forward();
    program->add(std::make_unique<FusedLoss>(
        *program, FusedLossOptions{.head = head,
                                   .outputs = 9,
                                   .in = {.values = in},
                                   .scale = 0.7F,
                                   .learned_scale = learned ? std::optional(scale) : std::nullopt,
                                   .bias = bias}));
    program->finish();
    FusedPass fused(std::move(program));
    Pass pass{.margin = 0.5};
    const LossAndGradients seen =
        fused.run_vectors(x, targets, {.input = InputKind::vectors, .size = 24, .outputs = 9}, pass, true);
    EXPECT_NEAR(seen.loss, loss.item<double>(), 0.01 * loss.item<double>());
    EXPECT_NEAR(seen.accuracy, logits.argmax(-1).eq(targets).to(at::kDouble).mean().item<double>(), 0.021);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(seen.gradients[i].sub(expected[i]).norm().item<double>(),
                0.02 * expected[i].norm().item<double>())
          << params[i].name;
    EXPECT_EQ(seen.gradients[0].narrow(0, 9, 2).abs().max().item<double>(), 0.0);  // padding makes no logits
  }
}

}  // namespace
}  // namespace bridle
