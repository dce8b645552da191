#include "data/merger.h"

#include <gtest/gtest.h>

#include "data/byte_pair_support.h"

namespace bridle {
namespace {

using test::make_byte_pairs;
using Tokens = std::vector<Token>;

Tokens encode(const Merger& merger, std::string_view piece) {
  Tokens tokens;
  merger.encode(piece, tokens);
  return tokens;
}

TEST(Merger, TakesTheLowestRankFirstAndOccurrencesFromTheLeft) {
  const BytePairs pairs = make_byte_pairs({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}});
  const Merger merger(pairs);
  EXPECT_EQ(encode(merger, "abc"), (Tokens{'a', 256}));
  EXPECT_EQ(encode(merger, "abab"), (Tokens{257, 257}));
  EXPECT_EQ(encode(merger, "aaa"), Tokens{259});
  EXPECT_EQ(encode(merger, "aaaa"), (Tokens{258, 258}));
  EXPECT_EQ(encode(merger, "aaaaa"), (Tokens{258, 259}));
  EXPECT_EQ(encode(merger, "x"), Tokens{'x'});
  EXPECT_EQ(encode(merger, ""), Tokens{});
}

TEST(Merger, NeedsNoMergesAtAll) {
  const BytePairs pairs = make_byte_pairs({});
  EXPECT_EQ(encode(Merger(pairs), "ab\xFF"), (Tokens{'a', 'b', 0xFF}));
}

TEST(Merger, AppendsToWhatIsThere) {
  Tokens tokens = {7};
  Merger(make_byte_pairs({})).encode("a", tokens);
  EXPECT_EQ(tokens, (Tokens{7, 'a'}));
}

// Lengths on both sides of the change from array to heap; few letters, so that pairs overlap.
TEST(Merger, EqualsMergingByPasses) {
  std::mt19937 random(3);
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const std::string alphabet = std::string("abcd").substr(0, 1 + seed % 4);
    const BytePairs pairs = make_byte_pairs(test::random_parts(alphabet, 3 + seed, seed), seed);
    const Merger merger(pairs);
    for (int i = 0; i < 100; ++i) {
      std::string piece;
      for (size_t length = random() % 120; length > 0; --length)
        piece += alphabet[random() % alphabet.size()];
      ASSERT_EQ(encode(merger, piece), test::merge_plainly(pairs, piece))
          << piece << " with vocabulary " << seed;
    }
  }
}

TEST(Merger, IsNotQuadraticInTheLengthOfAWord) {
  const Merger merger(make_byte_pairs({{"a", "a"}, {"aa", "aa"}, {"b", "a"}, {" ", " "}}));
  EXPECT_EQ(encode(merger, std::string(4000002, 'a')).size(), 1000001U);
  EXPECT_EQ(encode(merger, std::string(1000000, ' ')).size(), 500000U);
}

}  // namespace
}  // namespace bridle
