#include "nn/weights.h"

#include <gtest/gtest.h>

#include "nn_support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(InitialWeights, DependOnTheSeedAndDifferFromOneAnother) {
  Bench a(test::small_transformer());
  Bench b(test::small_transformer());
  Bench c(test::small_transformer(), at::kDouble, 4);
  const Param first = a.weights.matrix("x", Role::linear, 8, 8);
  const Param second = a.weights.matrix("y", Role::linear, 8, 8);
  EXPECT_FALSE(first.tensor.equal(second.tensor));
  EXPECT_TRUE(b.weights.matrix("x", Role::linear, 8, 8).tensor.equal(first.tensor));
  EXPECT_FALSE(c.weights.matrix("x", Role::linear, 8, 8).tensor.equal(first.tensor));
  EXPECT_TRUE(first.tensor.requires_grad());
}

TEST(InitialWeights, AreNormalWhereNanogptIsMeant) {
  ModelOptions options = test::small_transformer();
  options.initialization = "normal";
  Bench bench(options);
  const at::Tensor values = bench.weights.matrix("x", Role::query, 100, 100).tensor;
  EXPECT_NEAR(values.std().item<double>(), 0.02, 0.001);
  const at::Tensor ends = bench.weights.matrix("y", Role::mlp_down, 100, 100).tensor;
  EXPECT_NEAR(ends.std().item<double>(), 0.01, 0.0005);  // two blocks, four branches
}

}  // namespace
}  // namespace bridle
