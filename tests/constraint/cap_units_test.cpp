#include "constraint/cap_units.h"

#include <gtest/gtest.h>

#include <array>

#include "support.h"

namespace bridle {
namespace {

TEST(ApplyInUnitsOf, IsTheScaledPolynomialForCapsOfAnySize) {
  const std::array<OddPolynomial, 2> list = {{{1.0, -0.1, 0.01}, {0.9, 0.1, 0.0}}};
  for (const double cap : {1e-30, 1e-3, 1.0, 7.0, 1e3, 1e30}) {
    const Tensor w = test::normal({10, 14}, 1).mul(0.2 * cap);
    const Tensor expected =
        test::map_singular_values(w, [&](double x) { return cap * list[1](list[0](x / cap)); });
    EXPECT_LT(test::largest_difference(apply_in_units_of(cap, w, list, {}), expected), 1e-13 * cap);
    EXPECT_LT(test::largest_difference(apply_in_units_of(cap, w.to(at::kFloat), list, {}), expected),
              1e-6 * cap);
  }
}

}  // namespace
}  // namespace bridle
