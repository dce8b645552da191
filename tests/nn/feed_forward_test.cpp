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
