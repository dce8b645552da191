#include "data/prose/tagged.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Tagged, BecomesOrdinaryText) {
  EXPECT_EQ(text_of_tagged(
                "\n\n\tThe/at jury/nn said/vbd ``/`` no/at evidence/nn ''/'' (/( or/cc ,/, at/in least/ap "
                ")/) ./.\n\n\tWhy/wrb ?/. ?/.\n"),
            "The jury said \"no evidence\" (or, at least).\nWhy?\n");
  EXPECT_EQ(text_of_tagged("1/2/cd untagged //x"), "1/2 untagged /\n");
  EXPECT_EQ(text_of_tagged(""), "");
}

}  // namespace
}  // namespace bridle
