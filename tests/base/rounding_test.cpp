#include "base/rounding.h"

#include <gtest/gtest.h>

#include <random>

namespace bridle {
namespace {

// long double (64-bit mantissa) holds a·b, a + b and the like with enough spare digits to tell the side.
TEST(Rounding, EveryOperationIsAtOrAboveTheExactResultAndWithinOneUnit) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(1.0, 2.0);
  for (int i = 0; i < 100000; ++i) {
    const double a = uniform(random), b = uniform(random);
    const long double x = a, y = b;
    EXPECT_GE(static_cast<long double>(add_up(a, b)), x + y);
    EXPECT_LE(static_cast<long double>(next_down(add_up(a, b))), x + y);
    EXPECT_LE(static_cast<long double>(add_down(a, -b)), x - y);
    EXPECT_GE(std::fma(a, b, -mul_up(a, b)), -0x1p-51);
    EXPECT_LE(std::fma(a, b, -mul_up(a, b)), 0.0);
    EXPECT_GE(std::fma(a, b, -mul_down(a, b)), 0.0);
    EXPECT_GE(std::fma(div_up(a, b), b, -a), 0.0);
    EXPECT_LE(std::fma(div_down(a, b), b, -a), 0.0);
    EXPECT_GE(std::fma(sqrt_up(a), sqrt_up(a), -a), 0.0);
  }
}

TEST(Rounding, ExactResultsAreNotMoved) {
  EXPECT_EQ(add_up(1.0, 2.0), 3.0);
  EXPECT_EQ(mul_up(3.0, 0.25), 0.75);
  EXPECT_EQ(div_up(1.0, 4.0), 0.25);
  EXPECT_EQ(div_down(-6.0, 3.0), -2.0);
  EXPECT_EQ(sqrt_up(9.0), 3.0);
  EXPECT_EQ(mul_up(0.0, 5.0), 0.0);
}

TEST(Rounding, InexactResultsAreMovedToTheRightSide) {
  EXPECT_GT(add_up(1.0, 0x1p-80), 1.0);
  EXPECT_LT(add_down(1.0, -0x1p-80), 1.0);
  EXPECT_EQ(add_down(1.0, 0x1p-80), 1.0);
  EXPECT_GT(mul_up(0x1p-600, 0x1p-600), 0.0);
  EXPECT_GT(std::fma(3.0, div_up(1.0, 3.0), -1.0), 0.0);
  EXPECT_LT(div_down(1.0, 3.0), div_up(1.0, 3.0));
}

}  // namespace
}  // namespace bridle
