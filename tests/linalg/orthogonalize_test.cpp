#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/words.h"
#include "bridle/error.h"
#include "bridle/linalg.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

constexpr Coefficients kLists[] = {Coefficients::six_step, Coefficients::five_step, Coefficients::classic};

double composed(Coefficients list, double x) {
  for (const OddPolynomial& p : polynomials(list)) x = p(x);
  return x;
}

// The largest value of p on [0, m]: at the end, or where p'(x) = a + 3bx² + 5cx⁴ vanishes.
double largest_value(const OddPolynomial& p, double m) {
  double largest = p(m);
  const double root = std::sqrt(std::max(9 * p.b * p.b - 20 * p.a * p.c, 0.0));
  for (const double square : {(-3 * p.b - root) / (10 * p.c), (-3 * p.b + root) / (10 * p.c)}) {
    if (square > 0.0 && square < m * m) largest = std::max(largest, p(std::sqrt(square)));
  }
  return largest;
}

TEST(Orthogonalize, TreatsTheMatricesOfABatchForThemselvesInBfloat16) {
  for (const auto& shape : {std::vector<int64_t>{3, 40, 70}, std::vector<int64_t>{2, 90, 33}}) {
    const Tensor batch = test::normal(shape, 5, at::kFloat);
    const Tensor together = orthogonalize(batch, Coefficients::six_step, at::kBFloat16);
    EXPECT_EQ(together.scalar_type(), at::kFloat);
    for (int64_t i = 0; i < batch.size(0); ++i)
      EXPECT_LT(largest_difference(together[i].to(at::kDouble), orthogonalize(batch[i].to(at::kDouble))),
                0.05)
          << i;
  }
}

TEST(UpdateBound, IsTheSupremumOfTheCompositionRoundedUp) {
  for (const Coefficients list : kLists) {
    const double bound = update_bound(list);
    // Each step takes [0, m] onto [0, its largest value], so the last of these values is the supremum.
    double m = 1.0;
    for (const OddPolynomial& p : polynomials(list)) m = largest_value(p, m);
    EXPECT_LE(m, bound);
    EXPECT_GT(m, bound - 2e-5);
    double largest = 0.0;
    for (int i = 0; i <= 200000; ++i) largest = std::max(largest, composed(list, i / 200000.0));
    EXPECT_LE(largest, bound);
    EXPECT_GT(largest, bound - 2e-5);
  }
}

TEST(Coefficients, HaveAWordEach) {
  EXPECT_EQ(value_of<Coefficients>("six_step"), Coefficients::six_step);
  EXPECT_EQ(value_of<Coefficients>("five_step"), Coefficients::five_step);
  EXPECT_EQ(value_of<Coefficients>("classic"), Coefficients::classic);
  EXPECT_EQ(value_of<Coefficients>("clasic"), std::nullopt);
}

TEST(Orthogonalize, AppliesItsListToTheNormalisedSingularValues) {
  for (const Coefficients list : kLists) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{16, 16}, {12, 80}, {80, 12}}) {
      const Tensor w = test::normal({m, n}, 4).mul(37.0);
      const double norm = w.norm().item<double>();
      const Tensor expected =
          test::map_singular_values(w, [&](double x) { return composed(list, x / norm); });
      EXPECT_LT(largest_difference(orthogonalize(w, list), expected), 1e-10);
      EXPECT_LT(largest_difference(orthogonalize(w.to(at::kFloat), list), expected), 1e-4);
      EXPECT_LT(largest_difference(orthogonalize(w.to(at::kBFloat16), list), expected), 0.05);
    }
  }
}

TEST(Orthogonalize, KeepsItsBoundForWeightsOfAnySize) {
  for (const double size : {1e-30, 1.0, 1e30}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      const Tensor w = test::normal({24, 100}, 6).mul(size).to(dtype);
      const double slack = dtype == at::kBFloat16 ? 0.02 : 1e-4;  // measured in bfloat16: 1.0091
      EXPECT_LT(test::spectral_norm(orthogonalize(w)), update_bound(Coefficients::six_step) + slack);
      EXPECT_GT(test::singular_values(orthogonalize(w)).min().item<double>(), 0.95);
    }
  }
}

TEST(Orthogonalize, ZeroStaysZero) {
  EXPECT_EQ(orthogonalize(at::zeros({4, 40})).abs().max().item<float>(), 0.0F);
  EXPECT_EQ(matrix_sign(at::zeros({4, 4})).abs().max().item<float>(), 0.0F);
}

TEST(Orthogonalize, GramSpaceSurvivesRankDeficiency) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor w = test::matrix_with_spectrum(test::spectrum(2, 64, 1), 64, 1024, 2).to(dtype);
    EXPECT_LT(test::spectral_norm(orthogonalize(w)), 1.02);
  }
}

TEST(MatrixSign, ReachesOneToWorkingPrecisionAndNeverExceedsIt) {
  const Tensor w = test::normal({30, 45}, 8);
  const Tensor values = test::singular_values(matrix_sign(w));
  EXPECT_NEAR(values.min().item<double>(), 1.0, 1e-9);
  EXPECT_LE(values.max().item<double>(), 1.0 + 1e-13);
  EXPECT_NEAR(test::singular_values(matrix_sign(w.to(at::kFloat))).min().item<double>(), 1.0, 1e-5);
}

TEST(MatrixSign, ThePolynomialHasTheConstantsThatTheHardCapStates) {
  // docs/theory/constraints.md, statement 2: the sign's unconverged part and its defect, on a fine
  // logarithmic grid.
  const auto sign = [](double x) {
    x = composed(Coefficients::six_step, x);
    for (int i = 0; i < 2; ++i) x = OddPolynomial{15.0 / 8, -10.0 / 8, 3.0 / 8}(x);
    return x;
  };
  double unconverged = 0.0, defect = 0.0;
  for (int i = 0; i <= 400000; ++i) {
    const double x = std::pow(10.0, -8.0 + 8.0 * i / 400000);
    unconverged = std::max(unconverged, x * (1.0 - sign(x)) / 2);
    if (x >= 1e-3) defect = std::max(defect, 1.0 - sign(x));
  }
  EXPECT_LT(unconverged, 3.5e-5);
  EXPECT_GT(unconverged, 3.3e-5);
  EXPECT_LT(defect, 4e-7);
}

}  // namespace
}  // namespace bridle
