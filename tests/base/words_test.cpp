#include "base/words.h"

#include <gtest/gtest.h>

#include "file_support.h"

namespace bridle {
namespace {

enum class Size { small, large };

const char* word(Size size) {
  switch (size) {
    case Size::small:
      return "small";
    case Size::large:
      return "large";
  }
  return nullptr;
}

TEST(Words, ListTheValuesOfAnEnum) {
  EXPECT_EQ(all_values<Size>(), (std::vector<Size>{Size::small, Size::large}));
}

TEST(Words, AreReadAsTheyAreWritten) {
  EXPECT_EQ(value_of<Size>("large"), Size::large);
  for (const char* other : {"", "Large", "large ", "medium"}) EXPECT_EQ(value_of<Size>(other), std::nullopt);
}

TEST(Words, AreParsedOrAnErrorListsThemAll) {
  EXPECT_EQ(parse_word<Size>("small", "op", "--size"), Size::small);
  EXPECT_ERROR(parse_word<Size>("medium", "op", "--size"), InputError,
               "[op] --size must be one of small, large, got 'medium'");
  EXPECT_THROW((parse_word<Size, UsageError>("", "op", "--size")), UsageError);
}

}  // namespace
}  // namespace bridle
