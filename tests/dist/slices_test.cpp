#include "dist/slices.h"

#include <gtest/gtest.h>

#include <string>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

std::string tree(const SliceRange& node) {
  return sum_in_tree<std::string>(
      node,
      [](const SliceRange& part) -> std::optional<std::string> {
        if (part.count > 1) return std::nullopt;
        return std::to_string(part.first);
      },
      [](std::string& sum, const std::string& more) { sum = "(" + sum + "+" + more + ")"; });
}

TEST(Slices, AreAddedHalfByHalf) {
  EXPECT_EQ(tree({0, 1}), "0");
  EXPECT_EQ(tree({0, 2}), "(0+1)");
  EXPECT_EQ(tree({0, 3}), "((0+1)+2)");
  EXPECT_EQ(tree({0, 4}), "((0+1)+(2+3))");
  EXPECT_EQ(tree({0, 6}), "(((0+1)+2)+((3+4)+5))");
}

// Whoever holds which slices, the sum of what ranks hold is that of the whole tree.
TEST(Slices, OfRanksMakeTheSameSum) {
  for (int64_t all = 1; all <= 17; ++all) {
    for (int64_t ranks = 1; ranks <= all; ++ranks) {
      std::vector<std::pair<SliceRange, std::string>> known;
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const SliceRange own = slices_of(all, rank, ranks);
        EXPECT_EQ(own.first, next);
        next += own.count;
        EXPECT_GE(own.count, all / ranks);
        for (const SliceRange& node : nodes_of(all, own)) known.emplace_back(node, tree(node));
      }
      EXPECT_EQ(next, all);
      const std::string sum = sum_in_tree<std::string>(
          {0, all},
          [&](const SliceRange& part) -> std::optional<std::string> {
            for (const auto& [node, text] : known)
              if (node == part) return text;
            return std::nullopt;
          },
          [](std::string& left, const std::string& right) { left = "(" + left + "+" + right + ")"; });
      EXPECT_EQ(sum, tree({0, all})) << all << " slices, " << ranks << " ranks";
    }
  }
}

TEST(Slices, AreOneNodePerRankForPowersOfTwo) {
  for (const int64_t all : {4, 8, 12, 16, 20})
    for (const int64_t ranks : {1, 2, 4})
      for (int64_t rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(nodes_of(all, slices_of(all, rank, ranks)).size(), 1U) << all << " " << ranks;
}

TEST(Slices, AreHeldAFewSumsAtOnce) {
  EXPECT_EQ(sums_at_once(1), 1);
  EXPECT_EQ(sums_at_once(2), 2);
  EXPECT_EQ(sums_at_once(3), 3);
  EXPECT_EQ(sums_at_once(12), 5);
}

TEST(Slices, MustBeAsManyAsRanks) { EXPECT_ERROR(slices_of(1, 0, 2), InputError, "set training.slices=2"); }

}  // namespace
}  // namespace bridle
