#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;
using test::map_singular_values;

TEST(Parseval, AppliesItsPolynomialInUnitsOfTheCap) {
  const Param w{.name = "w", .tensor = test::normal({9, 20}, 1).mul(0.3)};
  const double cap = 2.0 * w.unit();
  const Tensor expected = map_singular_values(w.tensor, [&](double x) {
    const double y = x / cap;
    return cap * (1.2 * y - 0.2 * y * y * y);
  });
  make_constraint({.method = "parseval", .parseval_strength = 0.2})->apply_(w, 2.0, {});
  EXPECT_LT(largest_difference(w.tensor, expected), 1e-12);
}

TEST(Parseval, AlignedStepsStayBelowItsGuarantee) {
  const Param w{.name = "w", .tensor = test::normal({6, 6}, 1).mul(0.1)};
  const StepInfo step{.learning_rate = 0.05, .update_bound = 1.0};
  const auto constraint = make_constraint({.method = "parseval", .parseval_strength = 0.2});
  const double guaranteed = *constraint->guarantee(w, 1.0, step).norm;
  for (int i = 0; i < 300; ++i) {
    w.tensor.add_(map_singular_values(w.tensor, [](double) { return 1.0; }), step.learning_rate);
    constraint->apply_(w, 1.0, step);
    EXPECT_LE(test::spectral_norm(w.tensor), guaranteed + 1e-12);
  }
  EXPECT_NEAR(test::spectral_norm(w.tensor), guaranteed, 1e-6);
  EXPECT_FALSE(constraint->guarantee(w, 1.0, {.learning_rate = 5.0, .update_bound = 1.0}).norm);
  EXPECT_THROW(make_constraint({.method = "parseval", .parseval_strength = 0.9}), InputError);
}

}  // namespace
}  // namespace bridle
