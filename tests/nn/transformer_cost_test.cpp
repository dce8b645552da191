#include <gtest/gtest.h>

#include "nn/transformer.h"
#include "nn_support.h"

namespace bridle {
namespace {

TEST(TransformerCost, CountsEveryProductOfAToken) {
  TransformerOptions options = test::small_transformer();  // 2 blocks of width 16, 11 tokens
  options.vocab_size = 13;
  options.real_vocab_size = 11;
  const auto model = outline(options);
  const double block = 4 * 16 * 16 + 2 * 16 * 64, head = 11 * 16, attention = 2 * 16 * (8 + 1);
  EXPECT_EQ(model->flop(8).forward, 2.0 * (2 * block + head + attention));
  EXPECT_EQ(model->flop(8).backward, 2.0 * model->flop(8).forward);
  options.num_key_value_heads = 1;
  EXPECT_EQ(outline(options)->flop(8).forward, model->flop(8).forward - 2.0 * 2 * 2 * 12 * 16);
}

TEST(TransformerCost, MemoryGrowsWithTheBatchAndIsSmallerForFusedPasses) {
  const auto model = outline(TransformerOptions{.vocab_size = 65, .max_position_embeddings = 256});
  const Pass fused{.dtype = at::kBFloat16}, plain{.dtype = at::kFloat};
  const PassMemory small = model->memory({.size = 8, .length = 256}, plain, 2);
  const PassMemory large = model->memory({.size = 64, .length = 256}, plain, 2);
  EXPECT_NEAR(large.activations, 8.0 * small.activations, 1e-6 * large.activations);
  EXPECT_EQ(large.packed, 0.0);
  const PassMemory own = model->memory({.size = 64, .length = 256}, fused, 2);
  EXPECT_LT(own.activations, 0.2 * large.activations);
  EXPECT_GT(own.packed, 0.0);
}

}  // namespace
}  // namespace bridle
