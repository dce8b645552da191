#include "base/permutation.h"

#include <gtest/gtest.h>

#include <vector>

namespace bridle {
namespace {

TEST(Permutation, VisitsEveryIndexOnce) {
  for (uint64_t size = 1; size < 300; ++size) {
    const Permutation permutation(size, {.seed = size});
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      ASSERT_LT(permutation(i), size);
      ASSERT_FALSE(seen[permutation(i)]) << size;
      seen[permutation(i)] = true;
    }
  }
}

TEST(Permutation, SendsAnIndexEverywhereEquallyOften) {
  constexpr uint64_t kSize = 20;
  constexpr int kDraws = 20000;
  std::vector<int> counts(kSize * kSize);
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    const Permutation permutation(kSize, {.seed = seed});
    for (uint64_t i = 0; i < kSize; ++i) ++counts[i * kSize + permutation(i)];
  }
  double chi_squared = 0.0;
  const double expected = static_cast<double>(kDraws) / kSize;
  for (const int count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 361 + 5 * 27);  // 19² degrees of freedom, deviation √(2·361)
}

TEST(Permutation, LeavesNeighboursApart) {
  const Permutation permutation(1000000, {.seed = 3});
  int close = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto distance = static_cast<int64_t>(permutation(i)) - static_cast<int64_t>(permutation(i + 1));
    if (std::abs(distance) < 1000) ++close;
  }
  EXPECT_LT(close, 12);  // 2 expected
}

TEST(Permutation, BelongsToItsKey) {
  const Permutation a(1000, {.seed = 1});
  const Permutation b(1000, {.seed = 1, .step = 1});
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += a(i) == b(i) ? 1 : 0;
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace bridle
