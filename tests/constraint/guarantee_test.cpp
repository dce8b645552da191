#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "constraint/guarantee.h"
#include "support.h"

namespace bridle {
namespace {

TEST(InvariantNorm, FindsTheFixedPointFromBelow) {
  EXPECT_NEAR(*invariant_norm(1.0, [](double s) { return 0.9 * s + 0.5; }), 5.0, 1e-9);
  EXPECT_EQ(invariant_norm(2.0, [](double) { return 1.0; }), 2.0);
  EXPECT_FALSE(invariant_norm(1.0, [](double s) { return s + 0.1; }));
}

}  // namespace
}  // namespace bridle
