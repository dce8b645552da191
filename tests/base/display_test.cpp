#include "base/display.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace bridle {
namespace {

TEST(Display, ShowsFourSignificantDigitsWithoutIdleZeros) {
  EXPECT_EQ(shown(0.9999600310645499), "1");
  EXPECT_EQ(shown(3.14159), "3.142");
  EXPECT_EQ(shown(-0.0123456), "-0.01235");
  EXPECT_EQ(shown(123456.7), "123457");
  EXPECT_EQ(shown(1234567.0), "1.235e+06");
  EXPECT_EQ(shown(2e-7), "2e-07");
  EXPECT_EQ(shown(0.5), "0.5");
  EXPECT_EQ(shown(0.0), "0");
  EXPECT_EQ(shown(100.0), "100");
  EXPECT_EQ(shown(INFINITY), "inf");
}

TEST(Display, RoundsABoundToTheSafeSide) {
  EXPECT_EQ(shown_upper(9.97111), "9.972");
  EXPECT_EQ(shown_upper(9.9991), "10");
  EXPECT_EQ(shown_upper(0.1), "0.1");
  EXPECT_EQ(shown_upper(123456.2), "123457");
  EXPECT_EQ(shown_upper(1.0001e9), "1.001e+09");
  EXPECT_EQ(shown_lower(0.9999600310645499), "0.9999");
  EXPECT_EQ(shown_lower(36.0 / 255), "0.1411");
  EXPECT_EQ(shown_lower(0.01), "0.01");
  EXPECT_EQ(shown_lower(1e-12), "1e-12");
}

TEST(Display, NeverShowsAnUpperBoundBelowOrALowerOneAboveIt) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0), narrow(-6.0, 8.0);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::pow(10.0, i % 2 == 0 ? exponent(random) : narrow(random));
    const double upper = std::stod(shown_upper(value)), lower = std::stod(shown_lower(value));
    EXPECT_GE(upper, value);
    EXPECT_LE(lower, value);
    EXPECT_LE(upper, value * 1.0011) << value;
    EXPECT_GE(lower, value / 1.0011) << value;
  }
}

TEST(Display, EndsAtTheEdgesOfItsRange) {
  constexpr double largest = std::numeric_limits<double>::max(),
                   least = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(shown_upper(largest), "1.798e+308");
  EXPECT_EQ(shown_lower(largest), "1.797e+308");
  for (const double value : {least, 2 * least, 1234 * least, 123456789 * least}) {
    EXPECT_GE(std::strtod(shown_upper(value).c_str(), nullptr), value);
    EXPECT_LE(std::strtod(shown_lower(value).c_str(), nullptr), value);
  }
}

TEST(Display, RoundsACertifiedShareDown) {
  EXPECT_EQ(shown_percent(0.99999), "100.00 %");
  EXPECT_EQ(shown_percent_lower(0.99999), "99.99 %");
  EXPECT_EQ(shown_percent_lower(1.0), "100.00 %");
}

TEST(Display, ShowsCountsTimesAndSizesWithTheirUnits) {
  EXPECT_EQ(shown_count(111540), "111,540");
  EXPECT_EQ(shown_count(999), "999");
  EXPECT_EQ(shown_count(-1000), "-1,000");
  EXPECT_EQ(shown_count(1234567), "1,234,567");
  EXPECT_EQ(shown_time(83.4), "1:23");
  EXPECT_EQ(shown_time(7384.0), "2:03:04");
  EXPECT_EQ(shown_bytes(1234567.0), "1.2 MB");
}

TEST(Display, AlignsTextByItsCharacters) {
  EXPECT_EQ(pad_right("ε", 3), "ε  ");
  EXPECT_EQ(pad_left("ε (ℓ2)", 8), "  ε (ℓ2)");
  EXPECT_EQ(pad_left("long", 2), "long");
}

}  // namespace
}  // namespace bridle
