#include "bridle/upper_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "bridle/bound.h"
#include "bridle/error.h"

namespace bridle {
namespace {

TEST(UpperBound, HoldsDoublesExactly) {
  for (const double x : {0.0, 1.0, 0.1, 3.5e-310, 1.7e308, 5e-324}) EXPECT_EQ(UpperBound(x).to_double(), x);
}

TEST(UpperBound, OperationsAreNeverBelowTheExactResult) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-40.0, 40.0);
  for (int i = 0; i < 20000; ++i) {
    const double a = std::exp2(exponent(random)), b = std::exp2(exponent(random));
    const long double x = a, y = b;
    EXPECT_GE(static_cast<long double>((UpperBound(a) + UpperBound(b)).to_double()), x + y);
    EXPECT_GE(std::fma(-a, b, (UpperBound(a) * UpperBound(b)).to_double()), 0.0);
    EXPECT_GE(std::fma((UpperBound(a) / b).to_double(), b, -a), 0.0);
    const double root = sqrt(UpperBound(a)).to_double();
    EXPECT_GE(std::fma(root, root, -a), 0.0);
    EXPECT_LE((UpperBound(a) * UpperBound(b)).to_double(), a * b * (1 + 0x1p-51));
  }
}

TEST(UpperBound, ASumRoundsUpEvenWhenTheSmallerTermIsFarBelowTheLastDigit) {
  const UpperBound sum = UpperBound(1.0) + UpperBound(1e-300);
  EXPECT_GT(sum, UpperBound(1.0));
  EXPECT_EQ(sum.to_double(), std::nextafter(1.0, 2.0));
}

TEST(UpperBound, GoesFarBeyondDoubles) {
  UpperBound x = 10.0;
  for (int i = 0; i < 13; ++i) x *= x;  // 10^8192
  EXPECT_FALSE(x.is_unbounded());
  EXPECT_TRUE(std::isinf(x.to_double()));
  EXPECT_NEAR(x.log10(), 8192.0, 1e-8);
  EXPECT_GE(x.log10(), 8192.0);
  EXPECT_EQ(x.to_string(6).substr(0, 8), "10^8192.");
  UpperBound root = x;
  for (int i = 0; i < 13; ++i) root = sqrt(root);
  EXPECT_GE(root, UpperBound(10.0));
  EXPECT_LT(root, UpperBound(10.0 + 1e-9));
}

TEST(UpperBound, PrintsDecimalsThatAreNotBelowTheValue) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-900.0, 900.0);
  for (int i = 0; i < 5000; ++i) {
    const double x = std::exp2(exponent(random));
    const std::string text = UpperBound(x).to_string(4);
    EXPECT_GE(std::stod(text), x) << text;
    EXPECT_LE(std::stod(text), x * 1.002) << text;
  }
  EXPECT_EQ(UpperBound(20.0).to_string(), "20");
  EXPECT_EQ(UpperBound(1.23456789).to_string(3), "1.24");
  EXPECT_EQ(UpperBound(9.999).to_string(2), "10");
  EXPECT_EQ(UpperBound(0.0).to_string(), "0");
  EXPECT_EQ(UpperBound::unbounded().to_string(), "unbounded");
}

TEST(UpperBound, UnboundedIsAboveEverythingAndStaysSo) {
  const UpperBound top = UpperBound::unbounded();
  EXPECT_TRUE(UpperBound(1e308) < top);
  EXPECT_FALSE(top < top);
  EXPECT_TRUE((top + UpperBound(1.0)).is_unbounded());
  EXPECT_TRUE((top * UpperBound(0.5)).is_unbounded());
  EXPECT_TRUE((UpperBound(0.0) * top).is_zero());
  EXPECT_EQ(UpperBound(std::numeric_limits<double>::infinity()), top);
}

TEST(UpperBound, OrdersAsNumbersDo) {
  EXPECT_LT(UpperBound(0.0), UpperBound(5e-324));
  EXPECT_LT(UpperBound(1.5), UpperBound(1e10));
  EXPECT_LE(UpperBound(2.0), UpperBound(2.0));
  EXPECT_GE(UpperBound(3.0), UpperBound(2.0));
  EXPECT_EQ(max(UpperBound(3.0), UpperBound(2.0)), UpperBound(3.0));
  EXPECT_EQ(min(UpperBound(3.0), UpperBound(2.0)), UpperBound(2.0));
}

TEST(UpperBound, RefusesWhatCannotBeABound) {
  EXPECT_THROW(UpperBound(std::nan("")), NumericError);
  EXPECT_THROW(UpperBound(-1.0), NumericError);
  EXPECT_THROW(UpperBound(1.0) / 0.0, NumericError);
  EXPECT_THROW(UpperBound(1.0) / -2.0, NumericError);
}

TEST(UpperBound, SaturatesInsteadOfWrappingItsExponent) {
  UpperBound large = 2.0, small = 0.5;
  for (int i = 0; i < 80; ++i) {
    large *= large;
    small *= small;
  }
  EXPECT_TRUE(large.is_unbounded());
  EXPECT_FALSE(small.is_zero());
}

TEST(Bound, AffineMapsScaleBothAndShiftTheActivation) {
  const Bound after = Bound{.activation = 2.0, .lipschitz = 3.0}.affine(4.0, 0.5);
  EXPECT_EQ(after.activation, UpperBound(8.5));
  EXPECT_EQ(after.lipschitz, UpperBound(12.0));
}

TEST(UpperBound, PrintsAtTheEndsOfTheDoublesRange) {
  const double least = std::numeric_limits<double>::min(), most = std::numeric_limits<double>::max();
  EXPECT_EQ(UpperBound(most).to_string().substr(0, 6), "10^308");
  EXPECT_EQ(UpperBound(least).to_string().substr(0, 7), "10^-307");
}

}  // namespace
}  // namespace bridle
