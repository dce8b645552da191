#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "support.h"

namespace bridle {
namespace {

TEST(CapBySvd, LowersWhatIsAboveAndLeavesTheRest) {
  const Tensor w = test::normal({20, 30}, 1);
  const Tensor before = test::singular_values(w), after = test::singular_values(cap_by_svd(w, 5.0));
  EXPECT_LT(test::largest_difference(after, before.clamp_max(5.0)), 1e-12);
  EXPECT_LT(test::largest_difference(cap_by_svd(w, 100.0), w), 1e-13);
}

TEST(ClipBySvd, RaisesWhatIsBelowTheFloor) {
  const Tensor w = test::normal({3, 20, 12}, 1);
  const Tensor after = test::singular_values(clip_by_svd(w, 3.0, 5.0));
  EXPECT_LT(test::largest_difference(after, test::singular_values(w).clamp(3.0, 5.0)), 1e-12);
}

TEST(CapBySvd, RefusesNaN) {
  const Tensor w = at::zeros({3, 3});
  w[1][1] = std::nan("");
  EXPECT_THROW(cap_by_svd(w, 1.0), NumericError);
}

}  // namespace
}  // namespace bridle
