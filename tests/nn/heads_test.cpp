#include "nn/heads.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Heads, AreServedInOrderBySoManyEach) {
  EXPECT_EQ(per_query_head(std::vector<int>{7, 8}, 6), (std::vector<int>{7, 7, 7, 8, 8, 8}));
  EXPECT_EQ(per_query_head(std::vector<int>{7, 8}, 2), (std::vector<int>{7, 8}));
  EXPECT_EQ(serving_head(5, 6, 3), 2);
}

TEST(Heads, BlocksOfAWeightStandThereForEveryQueryHead) {
  Param weight{.name = "k", .tensor = at::arange(12, at::kFloat).view({4, 3})};
  weight.heads = 2;
  const at::Tensor blocks = head_blocks(weight, weight.tensor, 4);
  ASSERT_EQ(blocks.sizes(), (at::IntArrayRef{4, 2, 3}));
  for (int64_t h = 0; h < 4; ++h) EXPECT_TRUE(blocks[h].equal(weight.tensor.narrow(0, h / 2 * 2, 2))) << h;
}

}  // namespace
}  // namespace bridle
