#include "optim/muon.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

double composed(Coefficients list, double x) {
  for (const OddPolynomial& p : polynomials(list)) x = p(x);
  return x;
}

TEST(Momentum, IsAnExponentialAverageInPlace) {
  const Tensor m = at::full({2}, 4.0), g = at::full({2}, 8.0);
  const Tensor direction = average_gradient_(m, g, 0.75, false);
  EXPECT_TRUE(m.equal(at::full({2}, 5.0)));
  EXPECT_TRUE(direction.equal(m));
  EXPECT_TRUE(g.equal(at::full({2}, 8.0)));
}

TEST(Momentum, NesterovLooksAStepAhead) {
  const Tensor m = at::full({2}, 4.0), g = at::full({2}, 8.0);
  EXPECT_TRUE(average_gradient_(m, g, 0.75, true).equal(at::full({2}, 0.25 * 8.0 + 0.75 * 5.0)));
  EXPECT_TRUE(m.equal(at::full({2}, 5.0)));
  EXPECT_TRUE(g.equal(at::full({2}, 8.0)));
}

TEST(Momentum, WarmsUpLinearly) {
  const OptimizerOptions options{.momentum = 0.95, .momentum_start = 0.85, .momentum_warmup_steps = 4};
  EXPECT_DOUBLE_EQ(momentum_at(options, 0), 0.85);
  EXPECT_DOUBLE_EQ(momentum_at(options, 2), 0.90);
  EXPECT_DOUBLE_EQ(momentum_at(options, 4), 0.95);
  EXPECT_DOUBLE_EQ(momentum_at(options, 1000), 0.95);
  EXPECT_DOUBLE_EQ(momentum_at({.momentum = 0.9}, 0), 0.9);
}

TEST(MuonUpdate, MapsTheSingularValuesOfTheWholeMatrix) {
  const Tensor m = test::normal({12, 5}, 1);
  const Param param{.name = "w", .tensor = m};
  const double norm = m.norm().item<double>(), unit = std::sqrt(12.0 / 5.0);
  for (const auto list : {Coefficients::six_step, Coefficients::five_step, Coefficients::classic}) {
    const Tensor expected =
        test::map_singular_values(m, [&](double x) { return unit * composed(list, x / norm); });
    EXPECT_LT(largest_difference(muon_update(m, param, {.coefficients = list}), expected), 1e-10);
  }
}

TEST(MuonUpdate, TreatsEveryHeadForItselfInTheHeadsUnit) {
  const Tensor fused = test::normal({24, 8}, 2);
  const Param key{.name = "k", .tensor = fused.narrow(0, 8, 8), .role = Role::key, .blocks = 4};
  const Tensor direction = test::normal({8, 8}, 3);
  const Tensor update = muon_update(direction, key, {});
  for (int64_t head = 0; head < 4; ++head) {
    const Tensor block = direction.narrow(0, 2 * head, 2);
    const Tensor expected = orthogonalize(block).mul(std::sqrt(2.0 / 8.0));
    EXPECT_LT(largest_difference(update.narrow(0, 2 * head, 2), expected), 1e-12) << head;
  }
  EXPECT_LE(test::spectral_norm(update), 1.0);  // the whole too, in its own unit
}

TEST(MuonUpdate, TakesProductsInAnotherPrecisionAndGivesItsOwnBack) {
  const Tensor m = test::normal({16, 64}, 4, at::kFloat);
  const Param param{.name = "w", .tensor = m};
  const Tensor exact = muon_update(m, param, {});
  const Tensor rough = muon_update(m, param, {.product_dtype = at::kBFloat16});
  EXPECT_EQ(rough.scalar_type(), at::kFloat);
  EXPECT_FALSE(rough.equal(exact));
  EXPECT_LT(largest_difference(rough, exact), 0.02);
  EXPECT_TRUE(m.equal(test::normal({16, 64}, 4, at::kFloat)));
}

}  // namespace
}  // namespace bridle
