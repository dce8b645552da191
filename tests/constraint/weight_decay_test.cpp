#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

using test::map_singular_values;

TEST(WeightDecay, LeavesTheWeightToTheOptimizer) {
  const Param w{.name = "w", .tensor = test::normal({5, 7}, 1)};
  const Tensor before = w.tensor.clone();
  make_constraint({.method = "weight_decay"})
      ->apply_(w, 1.0, {.learning_rate = 1.0, .decay = 0.5, .update_bound = 1.0});
  EXPECT_TRUE(w.tensor.equal(before));
}

TEST(WeightDecay, GuaranteesNothingWhereDecayTimesRateIsAboveOneOrThereIsNone) {
  const Param w{.name = "w", .tensor = test::normal({5, 5}, 1)};
  const auto decay = make_constraint({.method = "weight_decay"});
  EXPECT_FALSE(decay->guarantee(w, 1.0, {.learning_rate = 3.0, .decay = 0.5, .update_bound = 1.0}).norm);
  EXPECT_FALSE(decay->guarantee(w, 1.0, {.learning_rate = 3.0, .update_bound = 1.0}).norm);
}

TEST(WeightDecay, AlignedStepsSettleAtUpdateBoundOverDecay) {
  const Param w{.name = "w", .tensor = test::normal({6, 6}, 1).mul(0.1)};
  const StepInfo step{.learning_rate = 0.2, .decay = 0.25, .update_bound = 1.0};
  for (int i = 0; i < 400; ++i) {  // the update pushes along the top singular vectors at its largest norm
    const Tensor push = map_singular_values(w.tensor, [](double) { return 1.0; });
    w.tensor.mul_(1.0 - step.decay * step.learning_rate).add_(push, step.learning_rate);
    EXPECT_LE(test::spectral_norm(w.tensor), 4.0 + 1e-12);
  }
  EXPECT_NEAR(test::spectral_norm(w.tensor), 4.0, 1e-6);
}

}  // namespace
}  // namespace bridle
