#include "nn/norm.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TransformerOptions with_norm(NormLayer norm, double epsilon) {
  TransformerOptions options = test::small_transformer();
  options.norm = norm;
  options.norm_epsilon = epsilon;
  options.bias = true;
  return options;
}

TEST(NormModule, GradientsAreThoseOfFiniteDifferences) {
  for (const NormLayer kind :
       {NormLayer::tanh, NormLayer::rms_norm, NormLayer::layer_norm, NormLayer::center_norm}) {
    Bench bench(with_norm(kind, 1e-5));
    const Norm norm(bench.options, bench.weights, "norm");
    bench.randomize_(0.7);
    const at::Tensor x = test::normal({3, 16}, 1).requires_grad_(true);
    test::expect_gradients([&] { return norm.forward(x); }, bench.tensors(x));
  }
}

TEST(NormModule, StretchStaysBelowTheBoundAndComesNearIt) {
  for (const NormLayer kind :
       {NormLayer::tanh, NormLayer::rms_norm, NormLayer::layer_norm, NormLayer::center_norm}) {
    Bench bench(with_norm(kind, 0.01), at::kFloat);
    const Norm norm(bench.options, bench.weights, "norm");
    const auto norms = measured_norms();
    Walk walk(*norms);
    const double bound = norm.bound({}, walk).lipschitz.to_double();
    const double observed = test::observed_stretch(
        [&](const at::Tensor& x) { return norm.forward(x.to(at::kFloat)).to(at::kDouble); }, {1, 16}, 1e-3,
        7);
    EXPECT_LE(observed, bound * 1.001) << word(kind);
    EXPECT_GE(observed, bound * 0.8) << word(kind);
  }
}

TEST(NormModule, HasNoBoundWithoutEpsilon) {
  Bench bench(with_norm(NormLayer::layer_norm, 0.0), at::kFloat);
  const Norm norm(bench.options, bench.weights, "norm");
  const auto norms = measured_norms();
  Walk walk(*norms);
  EXPECT_TRUE(norm.bound({}, walk).lipschitz.is_unbounded());
  EXPECT_FALSE(norm.bound({}, walk).activation.is_unbounded());
}

}  // namespace
}  // namespace bridle
