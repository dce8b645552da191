#include "nn/mixing.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TransformerOptions quadrature(int64_t memory = 32, int64_t content = 2) {
  return {.vocab_size = 11,
          .hidden_size = 32,
          .num_hidden_layers = 2,
          .mixing = MixingKind::quadrature,
          .memory_channels = memory,
          .content_heads = content,
          .num_attention_heads = 3,
          .max_position_embeddings = 8,
          .positions = PositionKind::none,
          .position_bias_start = 2.0};
}

// A mixture by itself, with random weights.
struct Alone {
  explicit Alone(const TransformerOptions& options, at::ScalarType dtype = at::kDouble,
                 double deviation = 0.4)
      : bench(options, dtype), mixing(bench.options, bench.weights, "mixing", 1) {
    bench.randomize_(deviation);
  }
  UpperBound lipschitz() const {
    const auto norms = measured_norms();
    Walk walk(*norms);
    return mixing.bound({}, walk).lipschitz;
  }
  test::Bench bench;
  Mixing mixing;
};

TEST(MixingModule, GradientsAreThoseOfFiniteDifferences) {
  for (const int64_t window : {0, 3}) {
    TransformerOptions options = quadrature();
    options.attention_window = window;
    Alone alone(options);
    const at::Tensor x = test::normal({2, 6, 32}, 1).requires_grad_(true);
    test::expect_gradients([&] { return alone.mixing.forward(x, alone.bench.pass); }, alone.bench.tensors(x));
  }
}

TEST(MixingModule, HeadsBeginAtTheirDistancesAndCoefficientsHaveLengthOne) {
  TransformerOptions options = quadrature();
  options.position_bias_dilation = 2;
  test::Bench bench(options);
  const Mixing mixing(bench.options, bench.weights, "mixing", 1);
  const at::Tensor bias = bench.params[0].tensor, coefficients = bench.params[1].tensor;
  EXPECT_EQ(bias[1][2].item<double>(), 2.0);
  EXPECT_EQ(bias[2][4].item<double>(), 2.0);
  EXPECT_EQ(bias.sum().item<double>(), 6.0);
  EXPECT_NEAR(coefficients.norm().item<double>(), 1.0, 1e-12);
}

// What sampling does: one token at a time, with what is kept of those before it.
TEST(MixingModule, GoesOnFromACache) {
  const at::NoGradGuard no_gradients;
  for (const int64_t window : {0, 4}) {
    TransformerOptions options = quadrature();
    options.attention_window = window;
    Alone alone(options);
    const at::Tensor x = test::normal({2, 7, 32}, 1);
    const at::Tensor whole = alone.mixing.forward(x, alone.bench.pass);
    KeyValueCache::Layer cache;
    std::vector<at::Tensor> parts{alone.mixing.forward(x.narrow(1, 0, 3), alone.bench.pass, &cache)};
    for (int64_t t = 3; t < 7; ++t)
      parts.push_back(alone.mixing.forward(x.narrow(1, t, 1), alone.bench.pass, &cache));
    EXPECT_LT(test::largest_difference(at::cat(parts, 1), whole), 1e-12);
  }
}

TEST(MixingModule, StaysInsideADocument) {
  const at::NoGradGuard no_gradients;
  const Alone alone(quadrature());
  const at::Tensor x = test::normal({1, 7, 32}, 1);
  Pass pass{.dtype = at::kDouble, .begins = at::zeros({1, 7}, at::kLong)};
  pass.begins.narrow(1, 4, 3).fill_(4);
  const at::Tensor together = alone.mixing.forward(x, pass);
  Pass plain{.dtype = at::kDouble};
  EXPECT_LT(
      test::largest_difference(together.narrow(1, 0, 4), alone.mixing.forward(x.narrow(1, 0, 4), plain)),
      1e-12);
  EXPECT_LT(
      test::largest_difference(together.narrow(1, 4, 3), alone.mixing.forward(x.narrow(1, 4, 3), plain)),
      1e-12);
}

// Random networks, and those in which everything adds up: the bound is never exceeded, and is nearly reached.
TEST(MixingModule, StretchStaysBelowTheBoundAndComesNearIt) {
  double nearest = 0.0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    TransformerOptions options = quadrature(seed % 3 == 0 ? 0 : 32, seed % 3 == 1 ? 1 : 0);
    options.attention_window = seed % 2 == 0 ? 0 : 2;
    Alone alone(options, at::kFloat, 0.2);
    alone.bench.randomize_(seed % 4 == 0 ? 1.0 : 0.2, 100 + seed);
    const double bound = alone.lipschitz().to_double();
    const double observed = test::observed_stretch(
        [&](const at::Tensor& x) {
          Pass pass;
          return alone.mixing.forward(x.to(at::kFloat), pass).to(at::kDouble);
        },
        {1, 5, 32}, 1.0, seed);
    EXPECT_LE(observed, bound * 1.001);
    nearest = std::max(nearest, observed / bound);
  }
  EXPECT_GT(nearest, 0.3);
}

// Tokens of norm 2 and content of norm 1.5 may be stretched six times as much as others, and grow no longer for it.
TEST(MixingModule, ContentIsPaidForInTheStretchAlone) {
  const at::NoGradGuard no_gradients;
  test::Bench bench(quadrature(0), at::kFloat);
  const Mixing mixing(bench.options, bench.weights, "mixing", 1);
  for (const Param& param : bench.params)
    if (param.role == Role::content_query) param.tensor.mul_(1.5);
  const auto norms = measured_norms();
  Walk walk(*norms);
  const double whole =
      bench.params[1].tensor.norm().item<double>() * test::spectral_norm(bench.params[2].tensor);
  const Bound bound = mixing.bound({.activation = 2.0, .lipschitz = 1.0}, walk);
  EXPECT_NEAR(bound.activation.to_double(), 2.0 * whole, 1e-5);
  EXPECT_NEAR(bound.lipschitz.to_double(), 6.0 * whole, 1e-4);
}

// Two channels whose maxima stand at different tokens: with the spectral norm of u in the place of its Frobenius norm, statement 12
// would be false.
TEST(MixingModule, TheMemoryPaysForEveryChannel) {
  const at::NoGradGuard no_gradients;
  TransformerOptions options = quadrature(32, 0);
  options.num_attention_heads = 1;
  Alone alone(options, at::kFloat);
  for (const Param& param : alone.bench.params) param.tensor.zero_();
  const auto find = [&](Role role) {
    for (const Param& param : alone.bench.params)
      if (param.role == role) return param.tensor;
    return at::Tensor();
  };
  find(Role::mixing_weight)[2] = 1.0;
  find(Role::memory_decay).fill_(-20.0);
  const at::Tensor u = find(Role::memory);
  for (int64_t k = 0; k < 32; ++k)
    u[k][k] = std::sqrt(32.0);  // u/√(Cd) = I/√32: spectral norm 1/√32, Frobenius norm 1
  at::Tensor m = find(Role::mixing_output);
  for (int64_t k = 0; k < 32; ++k) m[k][64 + k] = 1.0;
  // Token k has entry k alone, so that channel k's maximum stands there; every one of them grows.
  const at::Tensor x = at::zeros({1, 32, 32}, at::kFloat);
  for (int64_t k = 0; k < 32; ++k) x[0][k][k] = 1.0;
  Pass pass;
  const at::Tensor moved = alone.mixing.forward(x.mul(1.5), pass).sub(alone.mixing.forward(x, pass));
  const double stretch = test::largest_rms(moved) / test::largest_rms(x.mul(0.5));
  EXPECT_NEAR(stretch, 1.0, 1e-5);
  EXPECT_LE(stretch, alone.lipschitz().to_double() * (1 + 1e-6));
  EXPECT_GT(stretch, 1.0 / std::sqrt(32.0) * 5.0);
}

}  // namespace
}  // namespace bridle
