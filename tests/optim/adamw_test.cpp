#include "optim/adamw.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "golden/adamw_values.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

AdamMoments zero_moments() { return {at::zeros({2}, at::kDouble), at::zeros({2}, at::kDouble)}; }

TEST(AdamUpdate, HasNoBiasCorrectionInThePaper) {
  const AdamMoments moments = zero_moments();
  const Tensor g = at::tensor({4.0, -0.5}, at::kDouble);
  const OptimizerOptions options{.beta1 = 0.5, .beta2 = 0.75};
  // m = g/2, v = g²/4: their quotient is the sign. Then m = g/4 + g, v = 3g²/16 + g².
  EXPECT_LT(largest_difference(adam_update_(moments, g, options, 0), g.sign()), 1e-11);
  const Tensor second = adam_update_(moments, g.mul(2.0), options, 1);
  EXPECT_LT(largest_difference(second, g.sign().mul(1.25 / std::sqrt(19.0 / 16.0))), 1e-11);
}

TEST(AdamUpdate, BiasCorrectionMakesTheFirstUpdateTheSign) {
  const AdamMoments moments = zero_moments();
  const Tensor g = at::tensor({3.0, -7.0}, at::kDouble);
  EXPECT_LT(largest_difference(adam_update_(moments, g, {.bias_correction = true}, 0), g.sign()), 1e-11);
}

TEST(AdamUpdate, EpsilonIsAddedToTheRoot) {
  const AdamMoments moments = zero_moments();
  const Tensor g = at::tensor({0.0, 2.0}, at::kDouble);
  const OptimizerOptions options{.beta1 = 0.0, .beta2 = 0.0, .eps = 2.0};
  EXPECT_TRUE(adam_update_(moments, g, options, 0).equal(at::tensor({0.0, 0.5}, at::kDouble)));
}

// As in tests/golden/adamw_values.py.
Tensor numbers(at::IntArrayRef shape, int64_t factor, int64_t offset) {
  const Tensor tensor = at::zeros(shape, at::kDouble);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.view({-1})[i].fill_(static_cast<double>((factor * i + offset) % 11 - 5) / 8);
  }
  return tensor;
}

TEST(AdamW, WithBiasCorrectionAndWithoutMassIsTorchsAdamW) {
  const Tensor matrix = numbers({3, 4}, 3, 1), bias = numbers({4}, 5, 2);
  Optimizer optimizer(
      {{.name = "matrix", .tensor = matrix}, {.name = "bias", .tensor = bias, .role = Role::bias}},
      {.method = OptimizerMethod::adamw,
       .lr = 0.05,
       .weight_decay = 0.3,
       .eps = 1e-8,
       .bias_correction = true,
       .mass = {.use = false}});
  for (int64_t t = 0; t < 10; ++t) {
    const std::vector<Tensor> gradients = {numbers({3, 4}, 7, 13 * t), numbers({4}, 2, 3 * t)};
    optimizer.step_(gradients, schedule_factor({.shape = ScheduleShape::linear}, t, 10), t);
  }
  EXPECT_LT(largest_difference(matrix.view({-1}), at::tensor(at::ArrayRef<double>(golden::kAdamwMatrix))),
            1e-14);
  EXPECT_LT(largest_difference(bias, at::tensor(at::ArrayRef<double>(golden::kAdamwBias))), 1e-14);
}

}  // namespace
}  // namespace bridle
