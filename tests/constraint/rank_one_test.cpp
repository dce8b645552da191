#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "constraint/rank_one.h"
#include "support.h"

namespace bridle {
namespace {

TEST(PowerIterationConstraint, ItsVectorsAreItsStateAndCanBeRestored) {
  const Tensor weights = test::normal({3, 10, 10}, 1);
  const auto run = [&](Constraint& constraint, int64_t step) {
    const Param w{.name = "w", .tensor = weights[step].clone()};
    constraint.apply_(w, 2.0, {});
    return w.tensor;
  };
  for (const char* method : {"hammer", "normalize_estimate", "spectral_weight_decay"}) {
    const auto through = make_constraint({.method = method, .power_rounds = 2});
    run(*through, 0);
    run(*through, 1);
    const auto resumed = make_constraint({.method = method, .power_rounds = 2});
    resumed->set_state(through->state().clone());
    const Tensor expected = run(*through, 2);
    EXPECT_TRUE(run(*resumed, 2).equal(expected)) << method;
    EXPECT_FALSE(run(*make_constraint({.method = method, .power_rounds = 2}), 2).equal(expected)) << method;
  }
}

}  // namespace
}  // namespace bridle
