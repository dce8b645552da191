#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

TEST(Hammer, SetsTheTopSingularValueToTheCapFromAboveAndBelow) {
  for (const double cap : {2.0, 5.0}) {  // the top singular value is 3
    const Param w{.name = "w", .tensor = test::matrix_with_spectrum(test::spectrum(3, 8, 1), 8, 8, 1)};
    const Tensor before = test::singular_values(w.tensor);
    make_constraint({.method = "hammer", .power_rounds = 50})->apply_(w, cap, {});
    const Tensor after = test::singular_values(w.tensor);
    EXPECT_NEAR(after[0].item<double>(), cap, 1e-12);
    EXPECT_LT(largest_difference(after.narrow(0, 1, 7), before.narrow(0, 1, 7)), 1e-12);
  }
}

TEST(Hammer, MissesASecondLargeSingularValue) {
  const Param w{.name = "w",
                .tensor = test::matrix_with_spectrum(test::spectrum(0, 8, 1).mul(2.0), 8, 8, 1)};  // all 3
  make_constraint({.method = "hammer"})->apply_(w, 1.0, {});
  EXPECT_GT(test::spectral_norm(w.tensor), 2.9);
}

TEST(Hammer, LeavesZeroAlone) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1).zero_()};
  make_constraint({.method = "hammer"})->apply_(w, 1.0, {});
  EXPECT_EQ(w.tensor.abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace bridle
