#include "nn/linear.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(LinearModule, GradientsAreThoseOfFiniteDifferences) {
  Bench bench(test::small_transformer());
  const Linear linear(bench.weights, "fc", {.out = 5, .in = 7, .bias = true});
  bench.randomize_(0.5);
  const at::Tensor x = test::normal({4, 7}, 1).requires_grad_(true);
  test::expect_gradients([&] { return linear.forward(x); }, bench.tensors(x));
}

TEST(LinearModule, BoundIsTheNormAndAttained) {
  Bench bench(test::small_transformer(), at::kFloat);
  const Linear linear(bench.weights, "fc", {.out = 20, .in = 12, .bias = true});
  bench.randomize_(0.5);
  const auto norms = measured_norms();
  Walk walk(*norms);
  const Bound bound = linear.bound({.activation = 2.0, .lipschitz = 3.0}, walk);
  const double norm = test::spectral_norm(linear.weight().tensor.detach()) * std::sqrt(12.0 / 20.0);
  const double offset = test::largest_rms(linear.bias()->tensor);
  EXPECT_GE(bound.lipschitz.to_double(), 3.0 * norm);
  EXPECT_LE(bound.lipschitz.to_double(), 3.0 * norm * (1 + 1e-7));
  EXPECT_NEAR(bound.activation.to_double(), 2.0 * norm + offset, 1e-6);
}

TEST(LinearModule, StartsSemiOrthogonalAtNormOneOrZero) {
  Bench bench(test::small_transformer());
  const Linear wide(bench.weights, "wide", {.out = 8, .in = 32});
  const Linear tall(bench.weights, "tall", {.out = 32, .in = 8});
  const Linear zero(bench.weights, "zero", {.role = Role::attention_output, .out = 8, .in = 8});
  for (const Linear* linear : {&wide, &tall}) {
    const at::Tensor values =
        test::singular_values(linear->weight().tensor.detach()).div(linear->weight().unit());
    EXPECT_LT(values.sub(1.0).abs().max().item<double>(), 1e-12);
  }
  EXPECT_EQ(zero.weight().tensor.abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace bridle
