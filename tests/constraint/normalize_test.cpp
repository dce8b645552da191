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
    EXPECT_NEAR(test::spectral_norm(w.tensor), 2.0, 2e-3);
    EXPECT_LE(test::spectral_norm(w.tensor), 2.0 * (1 + 1e-6));
    const Tensor before = w.tensor.clone();
    make_constraint({.method = "normalize"})->apply_(w, 5.0, {});
    EXPECT_TRUE(w.tensor.equal(before));
  }
}

// Grows in every step by 0.05, or, from step 20 on, by a hundredth of that.
double after_steps(Constraint& constraint, const Param& w, const Tensor& update, int steps, int first = 0) {
  double least = 1e9;
  for (int i = first; i < first + steps; ++i) {
    w.tensor.add_(update, i < 20 ? 0.05 : 0.0005);
    constraint.apply_(w, 1.0, {});
    const double norm = test::spectral_norm(w.tensor) / w.unit();
    EXPECT_LE(norm, 1.0 + 1e-6);
    least = std::min(least, norm);
  }
  return least;
}

TEST(Normalize, ByBoundFollowsAGrowingWeightCloselyAndLetsAQuietOneBe) {
  const Param w{.name = "w", .tensor = test::normal({40, 60}, 2).mul(0.3)};
  const Tensor update = orthogonalize(w.tensor).mul(w.unit());
  const auto constraint = make_constraint({.method = "normalize"});
  constraint->apply_(w, 1.0, {});
  EXPECT_GT(after_steps(*constraint, w, update, 20), 0.99);
  EXPECT_GT(after_steps(*constraint, w, update, 30, 20), 0.85);  // divided too much for a few steps
  const Tensor before = w.tensor.clone();
  constraint->apply_(w, 1.0, {});
  EXPECT_TRUE(w.tensor.equal(before));
}

TEST(Normalize, ByBoundGoesOnFromItsState) {
  const Tensor start = test::normal({40, 60}, 2).mul(0.3);
  const Param a{.name = "w", .tensor = start.clone()}, b{.name = "w", .tensor = start.clone()};
  const Tensor update = orthogonalize(start);
  const auto whole = make_constraint({.method = "normalize"}),
             first = make_constraint({.method = "normalize"}),
             second = make_constraint({.method = "normalize"});
  after_steps(*whole, a, update, 10);
  after_steps(*first, b, update, 5);
  second->set_state(first->state());
  after_steps(*second, b, update, 5, 5);
  EXPECT_TRUE(a.tensor.equal(b.tensor));
}

TEST(Normalize, ByEstimateStaysAboveTheCapByWhatPowerIterationMisses) {
  const Param w{.name = "w", .tensor = test::normal({300, 100}, 1)};
  make_constraint({.method = "normalize_estimate", .power_rounds = 2})->apply_(w, 2.0, {});
  EXPECT_GT(test::spectral_norm(w.tensor), 2.05 * w.unit());
}

}  // namespace
}  // namespace bridle
