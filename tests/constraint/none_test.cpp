#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

TEST(None, LeavesTheWeightAlone) {
  const Param w{.name = "w", .tensor = test::normal({5, 7}, 1)};
  const Tensor before = w.tensor.clone();
  make_constraint({.method = "none"})->apply_(w, 1.0, {.learning_rate = 1.0});
  EXPECT_TRUE(w.tensor.equal(before));
}

}  // namespace
}  // namespace bridle
