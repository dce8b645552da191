#include <gtest/gtest.h>

#include <cmath>

#include "bridle/constraint.h"
#include "constraint/soft_cap.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;
using test::map_singular_values;

// x − αx³, then x + αx³, after the shrink.
double image(const SoftCapCoupling& coupling, double x) {
  x *= coupling.shrink;
  x -= coupling.alpha * x * x * x;
  return x + coupling.alpha * x * x * x;
}

TEST(SoftCapCoupling, TheLargestImageOfTheReachableRangeIsTheCap) {
  for (const double reach : {1.0 + 1e-12, 1.0 + 1e-8, 1.001, 1.1, 1.3, 81.0 / 62.0, 1.4, 2.0, 11.0, 1e6}) {
    const SoftCapCoupling coupling = soft_cap_coupling(reach);
    double largest = 0.0;
    for (int i = 0; i <= 20000; ++i) largest = std::max(largest, image(coupling, reach * i / 20000));
    EXPECT_LE(largest, 1.0 + 4e-16) << reach;
    EXPECT_GT(largest, 1.0 - 1e-9) << reach;
    EXPECT_LE(coupling.shrink, 1.0);
  }
}

TEST(SoftCapCoupling, DoesNothingWhereTheStepCannotReachTheCap) {
  for (const double reach : {0.0, 0.5, 1.0}) EXPECT_EQ(soft_cap_coupling(reach).alpha, 0.0);
}

TEST(SoftCapCoupling, HasThePublishedStrengthForLargeSteps) {
  EXPECT_NEAR(soft_cap_coupling(5.0).alpha, 0.195295, 1e-6);
  EXPECT_NEAR(soft_cap_coupling(5.0).shrink, 81.0 / 62.0 / 5.0, 1e-15);
}

TEST(SoftCapCoupling, SolvesThePapersQuarticForSmallSteps) {
  // −k⁹α⁴ + 3k⁷α³ − 3k⁵α² + k − σ_max = 0 with σ_max = 1
  for (const double k : {1.0001, 1.01, 1.2}) {
    const double a = soft_cap_coupling(k).alpha;
    EXPECT_NEAR(-std::pow(k, 9) * std::pow(a, 4) + 3 * std::pow(k, 7) * std::pow(a, 3) -
                    3 * std::pow(k, 5) * a * a + k - 1.0,
                0.0, 1e-14);
  }
}

TEST(SoftCap, MapsEverySingularValueByItsPolynomialAndLeavesSmallOnesNearlyAlone) {
  const StepInfo step{.learning_rate = 0.2, .decay = 0.1, .update_bound = 1.0};
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{12, 12}, {8, 64}, {64, 8}}) {
    const Param w{.name = "w", .tensor = test::normal({m, n}, 1)};
    const double reach = step.reach(2.0) * w.unit();
    w.tensor.mul_(reach / test::spectral_norm(w.tensor));
    const SoftCapCoupling coupling = soft_cap_coupling(step.reach(2.0) / 2.0);
    const double cap = 2.0 * w.unit();
    const Tensor expected =
        map_singular_values(w.tensor, [&](double x) { return cap * image(coupling, x / cap); });
    make_constraint({.method = "soft_cap"})->apply_(w, 2.0, step);
    EXPECT_LT(largest_difference(w.tensor, expected), 1e-12);
    EXPECT_NEAR(test::spectral_norm(w.tensor), cap, 1e-12);
  }
}

}  // namespace
}  // namespace bridle
