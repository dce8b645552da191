#include "nn/activation.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/words.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(ActivationModule, GradientsAreThoseOfFiniteDifferences) {
  const at::Tensor x = test::normal({5, 8}, 1).requires_grad_(true);
  for (const ActivationKind kind : all_values<ActivationKind>()) {
    const Activation activation(kind, 1.1289);
    test::expect_gradients([&] { return activation.forward(x); }, {x});
  }
}

// The slopes are attained: a smaller constant would be wrong, and 1.1289 itself is one.
TEST(ActivationModule, SlopesAreTheLeastThatHold) {
  for (const auto& [kind, at, slope] : {std::tuple{ActivationKind::gelu, std::sqrt(2.0), kGeluSlope},
                                        std::tuple{ActivationKind::gelu_tanh, 1.4185, kGeluTanhSlope},
                                        std::tuple{ActivationKind::silu, 2.3993572805154677, kSiluSlope}}) {
    const at::Tensor x = at::linspace(at - 0.01, at + 0.01, 200001, at::kDouble);
    const at::Tensor y = Activation(kind, 1.0).forward(x);
    const at::Tensor slopes = y.narrow(0, 1, 200000)
                                  .sub(y.narrow(0, 0, 200000))
                                  .div(x.narrow(0, 1, 200000).sub(x.narrow(0, 0, 200000)));
    EXPECT_GT(slopes.max().item<double>(), kind == ActivationKind::silu ? 1.0998 : 1.1289) << word(kind);
    EXPECT_NEAR(slopes.max().item<double>(), slope, 1e-8) << word(kind);
    const at::Tensor wide = at::linspace(-12.0, 12.0, 2400001, at::kDouble);
    const at::Tensor z = Activation(kind, 1.0).forward(wide);
    EXPECT_LE(z.narrow(0, 1, 2400000).sub(z.narrow(0, 0, 2400000)).abs().max().item<double>(),
              slope * (24.0 / 2400000) * (1 + 1e-9))
        << word(kind);
    EXPECT_LE(z.abs().sub(wide.abs()).max().item<double>(), 0.0) << word(kind);
  }
}

TEST(ActivationModule, MaxMinSortsPairsAndMovesNoTwoPointsApart) {
  const Activation activation(ActivationKind::maxmin, 1.0);
  const at::Tensor x = at::tensor({1.0, 2.0, 4.0, 3.0, -1.0, -2.0}, at::kDouble);
  EXPECT_TRUE(activation.forward(x).equal(at::tensor({2.0, 1.0, 4.0, 3.0, -1.0, -2.0}, at::kDouble)));
  const at::Tensor a = test::normal({5000, 6}, 1), b = a.add(test::normal({5000, 6}, 2).mul(0.7));
  const at::Tensor before = a.sub(b).norm(2, {1}),
                   after = activation.forward(a).sub(activation.forward(b)).norm(2, {1});
  EXPECT_LE(after.sub(before).max().item<double>(), 1e-12);
  EXPECT_GT(before.sub(after).max().item<double>(), 0.1);  // pairs that change places come closer
  EXPECT_EQ(activation.bound({.activation = 2.0, .lipschitz = 3.0}, 6).lipschitz.to_double(), 3.0);
}

TEST(ActivationModule, BoundIsSlopeOverDivisor) {
  const Bound bound =
      Activation(ActivationKind::gelu, 1.1289).bound({.activation = 2.0, .lipschitz = 3.0}, 6);
  EXPECT_GT(bound.lipschitz.to_double(), 3.0);  // "GeLU/1.1289 is 1-Lipschitz" is false
  EXPECT_NEAR(bound.lipschitz.to_double(), 3.0 * 1.128904145186 / 1.1289, 1e-10);
  EXPECT_NEAR(bound.activation.to_double(), 2.0 / 1.1289, 1e-12);
  const Activation relu(ActivationKind::relu, 1.0);
  EXPECT_EQ(relu.bound({.activation = 2.0, .lipschitz = 3.0}, 6).lipschitz.to_double(), 3.0);
}

// One entry that has all of a vector's length attains the bound: slope 2·√n·a there, and √n·a² in RMS.
TEST(ActivationModule, TheSlopeOfReluSquaredGrowsWithTheLargestEntry) {
  const Activation activation(ActivationKind::relu_squared, 1.0);
  constexpr double a = 1.5;
  const Bound bound = activation.bound({.activation = a, .lipschitz = 1.0}, 4);
  const at::Tensor x = at::tensor({2.0 * a, 0.0, 0.0, 0.0}, at::kDouble);
  const at::Tensor nearby = at::tensor({2.0 * a - 1e-6, 0.0, 0.0, 0.0}, at::kDouble);
  EXPECT_NEAR(bound.activation.to_double(), test::largest_rms(activation.forward(x)), 1e-12);
  const double stretch = test::largest_rms(activation.forward(x).sub(activation.forward(nearby))) /
                         test::largest_rms(x.sub(nearby));
  EXPECT_LE(stretch, bound.lipschitz.to_double());
  EXPECT_NEAR(stretch, bound.lipschitz.to_double(), 1e-5);
}

TEST(ActivationModule, AbsKeepsLengthsAndMovesNoTwoPointsApart) {
  const Activation activation(ActivationKind::abs, 1.0);
  const at::Tensor a = test::normal({5000, 6}, 1), b = a.add(test::normal({5000, 6}, 2).mul(0.7));
  EXPECT_TRUE(activation.forward(a).norm(2, {1}).allclose(a.norm(2, {1})));
  const at::Tensor before = a.sub(b).norm(2, {1}),
                   after = activation.forward(a).sub(activation.forward(b)).norm(2, {1});
  EXPECT_LE(after.sub(before).max().item<double>(), 1e-12);
  EXPECT_EQ(activation.bound({.activation = 2.0, .lipschitz = 3.0}, 6), (Bound{2.0, 3.0}));
}

}  // namespace
}  // namespace bridle
