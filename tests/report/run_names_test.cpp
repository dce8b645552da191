#include "report/run_names.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

using Names = std::vector<std::string>;

TEST(RunNames, AreTheLastPartsThatTellRunsApart) {
  EXPECT_EQ(run_names({"runs/a", "runs/b/"}), (Names{"a", "b"}));
  EXPECT_EQ(run_names({"x/seed/a", "y/seed/a", "x/seed/b"}), (Names{"x/seed/a", "y/seed/a", "b"}));
  EXPECT_EQ(run_names({"runs/../runs/a/."}), (Names{"a"}));
  EXPECT_EQ(run_names({}), Names{});
}

TEST(RunNames, OfTheSameRunTwiceAreTheSame) {
  const Names names = run_names({"a", "a"});
  EXPECT_EQ(names[0], names[1]);
}

}  // namespace
}  // namespace bridle
