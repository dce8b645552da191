#include "nn/feed_forward.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(FeedForwardModule, GradientsAreThoseOfFiniteDifferences) {
  Bench bench(test::small_transformer());
  const FeedForward layer(bench.options, bench.weights, "mlp");
  bench.randomize_(0.4);
  const at::Tensor x = test::normal({3, 16}, 1).requires_grad_(true);
  test::expect_gradients([&] { return layer.forward(x); }, bench.tensors(x));
}

TEST(FeedForwardModule, GradientsThroughAGateAreThoseOfFiniteDifferences) {
  TransformerOptions options = test::small_transformer();
  options.gated = options.bias = true;
  options.activation = ActivationKind::silu;
  Bench bench(options);
  const FeedForward layer(bench.options, bench.weights, "mlp");
  bench.randomize_(0.4);
  const at::Tensor x = test::normal({3, 16}, 1).requires_grad_(true);
  test::expect_gradients([&] { return layer.forward(x); }, bench.tensors(x));
}

// A gate's stretch grows with the length of its input; the bound with it, and a search comes near it.
TEST(FeedForwardModule, StretchThroughAGateStaysBelowTheBound) {
  for (const ActivationKind kind :
       {ActivationKind::silu, ActivationKind::gelu, ActivationKind::relu, ActivationKind::relu_squared}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      TransformerOptions options = test::small_transformer();
      options.gated = true;
      options.bias = seed % 2 == 1;
      options.activation = kind;
      options.activation_divisor = 1.0;
      if (seed >= 2) options.intermediate_size = 2;
      Bench bench(options, at::kFloat);
      const FeedForward layer(bench.options, bench.weights, "mlp");
      bench.randomize_(0.4, seed);
      const double a = seed == 0 ? 0.3 : 2.0;
      const auto norms = measured_norms();
      Walk walk(*norms);
      const Bound bound = layer.bound({.activation = a, .lipschitz = 1.0}, walk);
      const auto f = [&](const at::Tensor& x) { return layer.forward(x.to(at::kFloat)).to(at::kDouble); };
      const double observed = test::observed_stretch(f, {1, 16}, a, seed);
      EXPECT_LE(observed, bound.lipschitz.to_double() * 1.01) << word(kind) << seed;
      EXPECT_GE(observed, bound.lipschitz.to_double() * (seed >= 2 ? 0.1 : 0.02)) << word(kind) << seed;
    }
  }
}

TEST(FeedForwardModule, StretchStaysBelowTheBound) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Bench bench(test::small_transformer(), at::kFloat);
    const FeedForward layer(bench.options, bench.weights, "mlp");
    bench.randomize_(0.4, seed);
    const auto norms = measured_norms();
    Walk walk(*norms);
    const Bound bound = layer.bound({.activation = 2.0, .lipschitz = 1.0}, walk);
    const auto f = [&](const at::Tensor& x) { return layer.forward(x.to(at::kFloat)).to(at::kDouble); };
    const double observed = test::observed_stretch(f, {1, 16}, 2.0, seed);
    EXPECT_LE(observed, bound.lipschitz.to_double() * 1.01);
    EXPECT_GE(observed, bound.lipschitz.to_double() * 0.2);  // a bound that is far off would hide a mistake
  }
}

}  // namespace
}  // namespace bridle
