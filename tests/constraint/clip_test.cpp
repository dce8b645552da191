#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

TEST(Clip, ClipsFromBothSidesInRmsUnits) {
  const Param w{.name = "w", .tensor = test::normal({10, 40}, 1)};
  const Tensor expected = clip_by_svd(w.tensor, 9.0 * w.unit(), 15.0 * w.unit());
  make_constraint({.method = "clip", .floor = 9.0})->apply_(w, 15.0, {});
  EXPECT_LT(largest_difference(w.tensor, expected), 5e-3);
}

TEST(Clip, RefusesAFloorAboveTheCap) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  EXPECT_THROW(make_constraint({.method = "clip", .floor = 3.0})->apply_(w, 2.0, {}), InputError);
  EXPECT_THROW(make_constraint({.method = "clip", .floor = -1.0})->apply_(w, 2.0, {}), InputError);
}

}  // namespace
}  // namespace bridle
