#include "base/quantile.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Quantile, IsLinearBetweenTheValues) {
  const std::vector<double> values{4.0, 1.0, 3.0, 2.0};
  EXPECT_EQ(median(values), 2.5);
  EXPECT_EQ(quantile(values, 0.0), 1.0);
  EXPECT_EQ(quantile(values, 1.0), 4.0);
  EXPECT_EQ(quantile(values, 0.25), 1.75);
  EXPECT_EQ(median({7.0}), 7.0);
}

}  // namespace
}  // namespace bridle
