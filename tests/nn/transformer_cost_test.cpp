#include <gtest/gtest.h>

#include "nn/transformer.h"
#include "nn_support.h"

namespace bridle {
namespace {

// Two blocks of width 16 with four heads of 4, 64 inner, 11 tokens.
TEST(TheFlopOfATransformer, AreThoseOfItsMatricesAndOfAttention) {
  TransformerOptions options = test::small_transformer();
  const auto entries = [](int64_t kv_rows, int64_t vocabulary, int64_t length) {
    const int64_t block = 2 * 16 * 16 + 2 * kv_rows * 16 + 2 * 16 * 64;
    const int64_t seen = 16 * (length + 1);  // logits and values, of (length + 1)/2 tokens
    return static_cast<double>(2 * (block + seen) + vocabulary * 16);
  };
  EXPECT_EQ(outline(options)->flop(8).forward, 2.0 * entries(16, 11, 8));
  EXPECT_EQ(outline(options)->flop(8).backward, 4.0 * entries(16, 11, 8));
  options.num_key_value_heads = 1;
  EXPECT_EQ(outline(options)->flop(8).forward, 2.0 * entries(4, 11, 8));
  options.real_vocab_size = 7;
  EXPECT_EQ(outline(options)->flop(3).forward, 2.0 * entries(4, 7, 3));
  options.tie_embeddings = true;
  EXPECT_EQ(outline(options)->flop(3).forward, 2.0 * entries(4, 7, 3));
}

// Of eight tokens, two blocks of two see 1 + 2 + 3 + 4 + 3 + 4 + 3 + 4, and one block 1 + 2 four times.
TEST(TheFlopOfATransformer, CountWhatWindowsSee) {
  TransformerOptions options = test::small_transformer();
  const double whole = outline(options)->flop(8).forward;
  options.attention_window = 4;
  options.window_block = 2;
  options.long_window_layers = {1};
  EXPECT_EQ(whole - outline(options)->flop(8).forward, 2.0 * 2.0 * 16.0 * (36.0 - 24.0 + 36.0 - 12.0) / 8.0);
}

TEST(TheMemoryOfATransformersPass, DependsOnWhetherItIsFused) {
  TransformerOptions options = test::small_transformer();
  const BatchShape batch{.size = 1000, .length = 8};
  const Pass narrow{.dtype = at::kBFloat16, .training = true}, wide{.dtype = at::kDouble, .training = true};
  const PassMemory fused = outline(options)->memory(batch, narrow, 2),
                   plain = outline(options)->memory(batch, wide, 2);
  EXPECT_GT(fused.packed, 0.0);
  EXPECT_EQ(plain.packed, 0.0);
  EXPECT_LT(fused.activations, plain.activations);
  options.dropout = 0.1;
  EXPECT_GT(outline(options)->memory(batch, wide, 2).activations, plain.activations);
}

}  // namespace
}  // namespace bridle
