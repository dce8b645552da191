#include "base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace bridle {
namespace {

TEST(NearestWord, FindsTheLikelyIntention) {
  const std::array<std::string, 4> known = {"soft_cap", "hard_cap", "hammer", "none"};
  EXPECT_EQ(nearest_word("sotf_cap", known), "soft_cap");
  EXPECT_EQ(nearest_word("hardcap", known), "hard_cap");
  EXPECT_EQ(nearest_word("hamer", known), "hammer");
  EXPECT_EQ(nearest_word("", known), "none");
}

}  // namespace
}  // namespace bridle
