#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;
using test::map_singular_values;

TEST(ClippedWeightDecay, DecaysOnlyWhatIsAboveTheCap) {
  const Param w{.name = "w", .tensor = test::normal({12, 12}, 1)};
  const Tensor expected =
      map_singular_values(w.tensor, [](double x) { return x <= 3.0 ? x : 0.7 * x + 0.3 * 3.0; });
  make_constraint({.method = "clipped_weight_decay", .clip_decay = 0.3})
      ->apply_(w, 3.0, {.update_bound = 1.0});
  EXPECT_LT(largest_difference(w.tensor, expected), 1e-3);
}

TEST(ClippedWeightDecay, AlignedStepsSettleAtThePapersEquilibrium) {
  const Param w{.name = "w", .tensor = test::normal({8, 8}, 1).mul(0.1)};
  const StepInfo step{.learning_rate = 0.1, .update_bound = 1.0};
  const auto constraint = make_constraint({.method = "clipped_weight_decay", .clip_decay = 0.2});
  const double equilibrium = 2.0 + (1.0 - 0.2) / 0.2 * 0.1;
  const double guaranteed = *constraint->guarantee(w, 2.0, step).norm;
  EXPECT_NEAR(guaranteed, equilibrium, 2e-3);
  for (int i = 0; i < 300; ++i) {
    w.tensor.add_(map_singular_values(w.tensor, [](double) { return 1.0; }), step.learning_rate);
    constraint->apply_(w, 2.0, step);
    EXPECT_LE(test::spectral_norm(w.tensor), guaranteed);
  }
  EXPECT_NEAR(test::spectral_norm(w.tensor), equilibrium, 1e-3);
}

TEST(ClippedWeightDecay, RefusesADecayOutsideItsRange) {
  EXPECT_THROW(make_constraint({.method = "clipped_weight_decay", .clip_decay = 0.0}), InputError);
  EXPECT_THROW(make_constraint({.method = "clipped_weight_decay", .clip_decay = 1.5}), InputError);
}

}  // namespace
}  // namespace bridle
