#include "report/thinned_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bridle {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(ThinnedSeries, KeepsEveryLineOfAShortSeries) {
  ThinnedSeries series(4);
  for (int i = 1; i <= 4; ++i) series.add(10 * i, i);
  ASSERT_EQ(series.points().size(), 4U);
  EXPECT_EQ(series.lines_per_point(), 1);
  EXPECT_EQ(series.points()[2].step, 30);
  EXPECT_EQ(series.points()[2].mean, 3.0);
}

TEST(ThinnedSeries, JoinsNeighboursWithMeanAndRange) {
  ThinnedSeries series(4);
  for (int i = 1; i <= 6; ++i) series.add(i, i);
  ASSERT_EQ(series.points().size(), 3U);  // (1 2) (3 4) (5 6)
  EXPECT_EQ(series.lines_per_point(), 2);
  const SeriesPoint last = series.points().back();
  EXPECT_EQ(last.step, 6);
  EXPECT_EQ(last.mean, 5.5);
  EXPECT_EQ(last.low, 5.0);
  EXPECT_EQ(last.high, 6.0);
}

TEST(ThinnedSeries, LeavesOutWhatIsNotFinite) {
  ThinnedSeries series(2);
  series.add(1, kNone);
  series.add(2, 4.0);
  series.add(3, std::numeric_limits<double>::infinity());  // the first two become one
  EXPECT_EQ(series.points()[0].mean, 4.0);
  EXPECT_EQ(series.points()[0].finite, 1);
  EXPECT_TRUE(std::isnan(series.points()[1].mean));
}

TEST(ThinnedSeries, OfAnyLengthKeepsItsMeanItsRangeAndItsSize) {
  for (const int lines : {1, 7, 1000, 12345}) {
    ThinnedSeries series(100);
    double sum = 0.0;
    for (int i = 0; i < lines; ++i) {
      const double value = (i * 7919) % 1000;
      sum += value;
      series.add(i, value);
    }
    EXPECT_LE(series.points().size(), 100U);
    double total = 0.0, high = 0.0;
    int64_t counted = 0, step = -1;
    for (const SeriesPoint& point : series.points()) {
      total += point.mean * static_cast<double>(point.finite);
      counted += point.lines;
      high = std::max(high, point.high);
      EXPECT_LE(point.low, point.mean);
      EXPECT_LE(point.mean, point.high);
      EXPECT_GT(point.step, step);
      step = point.step;
    }
    EXPECT_EQ(counted, lines);
    EXPECT_NEAR(total, sum, 1e-6 * (sum + 1.0));
    EXPECT_EQ(high, lines >= 1000 ? 999.0 : high);
  }
}

}  // namespace
}  // namespace bridle
