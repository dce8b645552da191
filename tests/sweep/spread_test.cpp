#include "sweep/spread.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace bridle {
namespace {

using Point = std::vector<int64_t>;

TEST(SpreadPoints, AreAllOfTheGridWhereNoNumberIsNamed) {
  const auto points = spread_points({3, 4, 2}, 0);
  EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), 24U);
  EXPECT_EQ(points.size(), 24U);
  EXPECT_EQ(spread_points({3, 4, 2}, 100).size(), 24U);
  EXPECT_EQ(spread_points({}, 0), std::vector<Point>(1));  // nothing varies: one run
}

TEST(SpreadPoints, BeginWithTheSameOnesWhenMoreAreTaken) {
  const auto few = spread_points({12, 11, 3}, 40), more = spread_points({12, 11, 3}, 99);
  ASSERT_EQ(few.size(), 40U);
  ASSERT_EQ(more.size(), 99U);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), more.begin()));
}

TEST(SpreadPoints, MeetEveryValueOfEveryAxisAboutEquallyOften) {
  const std::vector<int64_t> sizes = {12, 11, 4};
  const auto points = spread_points(sizes, 132);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::map<int64_t, int> counts;
    for (const Point& point : points) ++counts[point[axis]];
    const double even = 132.0 / static_cast<double>(sizes[axis]);
    ASSERT_EQ(counts.size(), static_cast<size_t>(sizes[axis]));
    for (const auto& [value, count] : counts) EXPECT_NEAR(count, even, 0.35 * even) << axis << ", " << value;
  }
}

}  // namespace
}  // namespace bridle
