#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

TEST(SpectralWeightDecay, TakesAShareOffTheTopSingularValueOnly) {
  const Tensor spectrum = test::spectrum(3, 6, 1);
  const Param w{.name = "w", .tensor = test::matrix_with_spectrum(spectrum, 6, 9, 1)};
  const Tensor before = test::singular_values(w.tensor);
  make_constraint({.method = "spectral_weight_decay", .spectral_decay = 0.3, .power_rounds = 50})
      ->apply_(w, 1.0, {});
  const Tensor expected = before.clone();
  expected[0] *= 0.7;
  EXPECT_LT(largest_difference(test::singular_values(w.tensor), expected), 1e-12);
}

}  // namespace
}  // namespace bridle
