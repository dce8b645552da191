#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Stiefel, BringsEverySingularValueToTheCapButNotAboveIt) {
  const Param w{.name = "w", .tensor = test::normal({20, 60}, 1)};
  make_constraint({.method = "stiefel"})->apply_(w, 3.0, {});
  const Tensor values = test::singular_values(w.tensor).div(w.unit());
  EXPECT_LE(values.max().item<double>(), 3.0);
  EXPECT_GT(values.min().item<double>(), 3.0 * 0.995);
}

}  // namespace
}  // namespace bridle
