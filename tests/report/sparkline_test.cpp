#include "report/sparkline.h"

#include <gtest/gtest.h>

#include <limits>

namespace bridle {
namespace {

std::string line_of(const std::vector<double>& values, size_t width) {
  ThinnedSeries series;
  for (size_t i = 0; i < values.size(); ++i) series.add(static_cast<int64_t>(i), values[i]);
  return sparkline(series.points(), width);
}

TEST(Sparkline, HasTheLowestValueAtTheBottomAndTheHighestAtTheTop) {
  EXPECT_EQ(line_of({8, 7, 6, 5, 4, 3, 2, 1}, 20), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(line_of({0, 1, 0}, 20), "▁█▁");
}

TEST(Sparkline, JoinsValuesToItsWidth) {
  EXPECT_EQ(line_of({0, 0, 1, 3}, 2), "▁█");
  EXPECT_EQ(line_of(std::vector<double>(1000, 5.0), 3), "▁▁▁");
}

TEST(Sparkline, LeavesGaps) {
  EXPECT_EQ(line_of({0, std::numeric_limits<double>::quiet_NaN(), 1}, 20), "▁ █");
  EXPECT_EQ(line_of({}, 20), "");
}

}  // namespace
}  // namespace bridle
