#include "dist/owners.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Owners, ShareTheCostLargestFirst) {
  const std::vector<double> costs{1.0, 8.0, 3.0, 4.0, 2.0};
  EXPECT_EQ(owners_by_cost(costs, 1), (std::vector<int64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(owners_by_cost(costs, 2), (std::vector<int64_t>{0, 0, 1, 1, 1}));
}

TEST(Owners, MayBeMoreThanThereAreWeights) {
  EXPECT_EQ(owners_by_cost(std::vector<double>{1.0, 2.0}, 4), (std::vector<int64_t>{1, 0}));
}

}  // namespace
}  // namespace bridle
