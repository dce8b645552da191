#include "nn/quadrature_feed_forward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TransformerOptions options_with(ActivationKind activation, int64_t inner = 64) {
  return {.vocab_size = 11,
          .hidden_size = 32,
          .num_hidden_layers = 1,
          .mixing = MixingKind::quadrature,
          .num_attention_heads = 1,
          .intermediate_size = inner,
          .max_position_embeddings = 8,
          .positions = PositionKind::none,
          .activation = activation,
          .activation_divisor = 1.5,
          .residual = ResidualKind::quadrature};
}

struct Alone {
  explicit Alone(const TransformerOptions& options, at::ScalarType dtype = at::kDouble)
      : bench(options, dtype), layer(bench.options, bench.weights, "mlp") {}
  Bound bound(const Bound& in) const {
    const auto norms = measured_norms();
    Walk walk(*norms);
    return layer.bound(in, walk);
  }
  const at::Tensor& weight(const std::string& name) const {
    for (const Param& param : bench.params)
      if (param.name == "mlp." + name) return param.tensor;
    throw std::logic_error(name);
  }
  test::Bench bench;
  QuadratureFeedForward layer;
};

TEST(QuadratureFeedForward, IsOneMatrixOfTheSkipAndOfWhatTheActivationGives) {
  Alone alone(options_with(ActivationKind::relu));
  alone.bench.randomize_(0.4);
  const at::NoGradGuard no_gradients;
  const at::Tensor x = test::normal({5, 32}, 1), c = alone.weight("coefficients");
  const at::Tensor active = at::linear(x, alone.weight("up_proj.weight")).relu().div(1.5 * std::sqrt(2.0));
  const at::Tensor z = at::cat({x.mul(c[0]), active.mul(c[1])}, -1);
  EXPECT_LT(test::largest_difference(alone.layer.forward(x, alone.bench.pass),
                                     at::linear(z, alone.weight("down_proj.weight"))),
            1e-12);
}

TEST(QuadratureFeedForward, GradientsAreThoseOfFiniteDifferences) {
  Alone alone(options_with(ActivationKind::gelu));
  alone.bench.randomize_(0.4);
  const at::Tensor x = test::normal({3, 32}, 1).requires_grad_(true);
  for (const bool training : {false, true}) {
    alone.bench.pass.training = training;
    test::expect_gradients([&] { return alone.layer.forward(x, alone.bench.pass); }, alone.bench.tensors(x));
  }
}

TEST(QuadratureFeedForward, TheBoundIsReachedWhereSkipAndBranchSayTheSame) {
  Alone alone(options_with(ActivationKind::abs));
  const at::NoGradGuard no_gradients;
  const at::Tensor both = at::cat({at::eye(32), at::eye(32)}, 0);
  alone.weight("up_proj.weight").copy_(both.mul(3.0));  // of norm 3, RMS → RMS
  alone.weight("down_proj.weight").narrow(1, 0, 32).copy_(at::eye(32));
  alone.weight("down_proj.weight").narrow(1, 32, 64).copy_(both.t().mul(std::sqrt(0.5)));
  alone.weight("coefficients")[0] = 1.0;
  alone.weight("coefficients")[1] = 2.0;
  const at::Tensor x = test::normal({1, 32}, 1).abs(), step = test::normal({1, 32}, 2).mul(1e-4);
  const auto f = [&](const at::Tensor& y) { return alone.layer.forward(y, alone.bench.pass); };
  // y = x + 2·(3/1.5)·x; M has norm √2, c length √5, the branch alone 3/1.5 = 2.
  EXPECT_NEAR(f(x.add(step)).sub(f(x)).norm().item<double>() / step.norm().item<double>(), 5.0, 1e-6);
  const Bound bound = alone.bound({.activation = 0.5, .lipschitz = 7.0});
  EXPECT_NEAR(bound.lipschitz.to_double(), 7.0 * 2.0 * std::sqrt(10.0), 1e-6);
  EXPECT_NEAR(bound.activation.to_double(), 0.5 * 2.0 * std::sqrt(10.0), 1e-6);
}

TEST(QuadratureFeedForward, WithTheCapsOfABudgetTheBoundIsReached) {
  Alone alone(options_with(ActivationKind::abs));
  const at::NoGradGuard no_gradients;
  const at::Tensor both = at::cat({at::eye(32), at::eye(32)}, 0);
  alone.weight("up_proj.weight").copy_(both.mul(1.5));
  alone.weight("down_proj.weight").narrow(1, 0, 32).copy_(at::eye(32).mul(std::sqrt(0.5)));
  alone.weight("down_proj.weight").narrow(1, 32, 64).copy_(both.t().mul(0.5));
  const at::Tensor x = test::normal({1, 32}, 1).abs(), step = test::normal({1, 32}, 2).mul(1e-4);
  const auto f = [&](const at::Tensor& y) { return alone.layer.forward(y, alone.bench.pass); };
  EXPECT_NEAR(f(x.add(step)).sub(f(x)).norm().item<double>() / step.norm().item<double>(), 1.0, 1e-6);
  EXPECT_NEAR(alone.bound({}).lipschitz.to_double(), 1.0, 1e-6);
}

TEST(QuadratureFeedForward, StretchStaysBelowTheBound) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const int64_t inner = seed % 2 == 0 ? 20 : 96;
    Alone alone(options_with(seed % 3 == 0 ? ActivationKind::gelu : ActivationKind::maxmin, inner),
                at::kFloat);
    alone.bench.randomize_(0.4, seed);
    const auto f = [&](const at::Tensor& x) {
      return alone.layer.forward(x.to(at::kFloat), alone.bench.pass).to(at::kDouble);
    };
    const double bound = alone.bound({.activation = 2.0, .lipschitz = 1.0}).lipschitz.to_double();
    const double observed = test::observed_stretch(f, {1, 32}, 2.0, seed);
    EXPECT_LE(observed, bound * 1.01);
    EXPECT_GE(observed, bound * 0.2);  // a bound that is far off would hide a mistake
  }
}

}  // namespace
}  // namespace bridle
