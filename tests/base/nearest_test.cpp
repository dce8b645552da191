#include "base/nearest.h"

#include <gtest/gtest.h>

#include <array>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(NearestWord, FindsTheLikelyIntention) {
  const std::array<std::string, 4> known = {"soft_cap", "hard_cap", "hammer", "none"};
  EXPECT_EQ(nearest_word("sotf_cap", known), "soft_cap");
  EXPECT_EQ(nearest_word("hardcap", known), "hard_cap");
  EXPECT_EQ(nearest_word("hamer", known), "hammer");
  EXPECT_EQ(nearest_word("", known), "none");
}

TEST(FindWord, GivesTheWordsPlaceOrAnErrorThatNamesTheNearest) {
  EXPECT_EQ(find_word("b", {"a", "b"}, "op", "letter"), 1U);
  EXPECT_ERROR(find_word("consine", {"linear", "cosine"}, "op", "shape"), InputError,
               "[op] no shape 'consine'; did you mean 'cosine'? Known: linear, cosine");
}

}  // namespace
}  // namespace bridle
