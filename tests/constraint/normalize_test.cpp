#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Normalize, ByBoundReachesTheCapFromBelowAndLeavesSmallWeightsAlone) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const Param w{.name = "w", .tensor = test::normal({30, 30}, 1).to(dtype)};
    make_constraint({.method = "normalize"})->apply_(w, 2.0, {});
    EXPECT_NEAR(test::spectral_norm(w.tensor), 2.0, 3e-4);
    const Tensor before = w.tensor.clone();
    make_constraint({.method = "normalize"})->apply_(w, 5.0, {});
    EXPECT_TRUE(w.tensor.equal(before));
  }
}

TEST(Normalize, ByEstimateStaysAboveTheCapByWhatPowerIterationMisses) {
  const Param w{.name = "w", .tensor = test::normal({300, 100}, 1)};
  make_constraint({.method = "normalize_estimate", .power_rounds = 2})->apply_(w, 2.0, {});
  EXPECT_GT(test::spectral_norm(w.tensor), 2.05 * w.unit());
}

}  // namespace
}  // namespace bridle
