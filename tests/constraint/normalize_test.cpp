#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "bridle/linalg.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Normalize, ByBoundReachesTheCapFromBelowAndLeavesSmallWeightsAlone) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const Param w{.name = "w", .tensor = test::normal({30, 30}, 1).to(dtype)};
    make_constraint({.method = "normalize"})->apply_(w, 2.0, {});
    EXPECT_NEAR(test::spectral_norm(w.tensor), 2.0, 3e-4);
    EXPECT_LE(test::spectral_norm(w.tensor), 2.0 * (1 + 1e-6));
    const Tensor before = w.tensor.clone();
    make_constraint({.method = "normalize"})->apply_(w, 5.0, {});
    EXPECT_TRUE(w.tensor.equal(before));
  }
}

TEST(Normalize, ByBoundDoesNotDependOnWhatItDidBefore) {
  const Param kept{.name = "w", .tensor = test::normal({40, 60}, 2).mul(0.3)};
  const Tensor update = orthogonalize(kept.tensor).mul(kept.unit());
  const auto constraint = make_constraint({.method = "normalize"});
  for (const double step : {0.05, 0.05, -0.3, 0.05, 0.3, -0.1}) {  // outside, and inside again
    kept.tensor.add_(update, step);
    const Param fresh{.name = "w", .tensor = kept.tensor.clone()};
    constraint->apply_(kept, 1.0, {});
    make_constraint({.method = "normalize"})->apply_(fresh, 1.0, {});
    EXPECT_TRUE(kept.tensor.equal(fresh.tensor));
    EXPECT_LE(test::spectral_norm(kept.tensor), kept.unit() * (1 + 1e-6));
  }
}

TEST(Normalize, ByBoundLeavesAWeightJustInsideAloneAlsoAfterItWasOutside) {
  const Param w{.name = "w", .tensor = test::normal({40, 60}, 2)};
  const auto constraint = make_constraint({.method = "normalize"});
  constraint->apply_(w, 0.5, {});
  w.tensor.mul_((1 - 1e-5) * w.unit() /
                test::spectral_norm(w.tensor));  // nearer to 1 than the bound's excess
  const Tensor before = w.tensor.clone();
  constraint->apply_(w, 1.0, {});
  EXPECT_TRUE(w.tensor.equal(before));
}

TEST(Normalize, ByEstimateStaysAboveTheCapByWhatPowerIterationMisses) {
  const Param w{.name = "w", .tensor = test::normal({300, 100}, 1)};
  make_constraint({.method = "normalize_estimate", .power_rounds = 2})->apply_(w, 2.0, {});
  EXPECT_GT(test::spectral_norm(w.tensor), 2.05 * w.unit());
}

}  // namespace
}  // namespace bridle
