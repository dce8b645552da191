#include "nn/positions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace bridle {
namespace {

TEST(Visibility, AreThoseBeforeInTheWindowAndTheDocument) {
  const Pass pass{.begins = at::zeros({2, 5}, at::kLong)};
  pass.begins[1].narrow(0, 3, 2).fill_(3);
  const at::Tensor logits =
      Visibility{.window = 3}.logits(5, 6, pass, at::TensorOptions().dtype(at::kDouble));
  ASSERT_EQ(logits.sizes(), (at::IntArrayRef{2, 1, 5, 6}));
  for (int64_t sequence = 0; sequence < 2; ++sequence)
    for (int64_t row = 0; row < 5; ++row)
      for (int64_t j = 0; j < 6; ++j) {
        const int64_t token = row + 1, begin = sequence == 1 && row >= 3 ? 3 : 0;
        const bool sees = j <= token && j > token - 3 && j >= begin;
        EXPECT_EQ(std::isinf(logits[sequence][0][row][j].item<double>()), !sees) << row << " " << j;
      }
}

TEST(Visibility, IsTheSameForTheKernels) {
  const std::vector<int32_t> begins{0, 0, 0, 3, 3, 3};
  const VisibleTokens sees = Visibility{.window = 2}.tokens(begins.data(), 2, 1.0);
  EXPECT_EQ(sees.begin(0), 0);
  EXPECT_EQ(sees.begin(1), 3);
  EXPECT_EQ(sees.begin(3), 3);
  EXPECT_EQ((Visibility{.window = 2}.tokens(nullptr, 2, 1.0).begin(5)), 4);
  EXPECT_EQ((Visibility{.window = 2}.offsets(6)), 2);
  EXPECT_EQ(Visibility{}.offsets(6), 6);
}

// The reference's rule: the next multiple of a block of (window − ½ block)·share, the token's own block at least.
TEST(Visibility, GrowsBlockByBlockToTheWholeWindow) {
  const Visibility sees{.window = 1792, .block = 128};
  for (const int64_t steps : {1, 7, 1770}) {
    for (int64_t step = 0; step <= steps; ++step) {
      const double share = static_cast<double>(step) / static_cast<double>(steps);
      int64_t expected = 128;
      while (static_cast<double>(expected) < 1728.0 * share) expected += 128;
      EXPECT_EQ(sees.reach(share), expected) << step << " of " << steps;
    }
  }
  EXPECT_EQ(sees.reach(), 1792);
  const Visibility half{.window = 1792, .block = 128, .is_short = true};
  EXPECT_EQ(half.reach(), 896);
  EXPECT_EQ(half.reach(0.0), 128);
  EXPECT_EQ(half.reach(0.2), 128);  // of three blocks
  EXPECT_EQ(Visibility{}.reach(0.3), 0);
}

// Token by token, from the definition.
TEST(Visibility, OfBlocksIsThatOfAPlainTwin) {
  at::Tensor begins = at::zeros({1, 40}, at::kLong);
  begins[0].narrow(0, 13, 27).fill_(13);
  for (const bool documents : {false, true}) {
    for (const bool is_short : {false, true}) {
      for (const double share : {0.0, 0.3, 0.6, 1.0}) {
        const Visibility sees{.window = 16, .block = 4, .is_short = is_short};
        int64_t blocks = 1;
        while (4.0 * static_cast<double>(blocks) < 14.0 * share) ++blocks;
        if (is_short) blocks = blocks / 2 > 0 ? blocks / 2 : 1;
        const at::Tensor logits =
            sees.logits(40, 40, {.window_share = share, .begins = documents ? begins : at::Tensor()},
                        at::TensorOptions().dtype(at::kFloat));
        std::vector<int32_t> kernel_begins(40, 0);
        for (size_t i = 13; documents && i < 40; ++i) kernel_begins[i] = 13;
        const VisibleTokens tokens = sees.tokens(documents ? kernel_begins.data() : nullptr, 0, share);
        for (int64_t i = 0; i < 40; ++i) {
          for (int64_t j = 0; j < 40; ++j) {
            const bool near = i / 4 - j / 4 < blocks, same = !documents || i < 13 || j >= 13;
            const bool expected = j <= i && near && same;
            EXPECT_EQ(std::isinf(logits[0][0][i][j].item<double>()), !expected) << i << " " << j;
            EXPECT_EQ(j <= i && j >= tokens.begin(i), expected) << i << " " << j;
          }
        }
      }
    }
  }
}

TEST(Visibility, IsShortInAllLayersButTheLongOnes) {
  TransformerOptions options{.attention_window = 16, .window_block = 4};
  EXPECT_FALSE(visibility(options, 1).is_short);
  options.long_window_layers = {0, 3};
  for (int64_t layer = 0; layer < 4; ++layer)
    EXPECT_EQ(visibility(options, layer).is_short, layer == 1 || layer == 2);
}

TEST(BiasesByDistance, ServeAllThatAreFartherWithTheLast) {
  const at::Tensor table = at::arange(6, at::kDouble).view({2, 3});
  const at::Tensor bias = biases_by_distance(table, 2, 5);
  ASSERT_EQ(bias.sizes(), (at::IntArrayRef{2, 2, 5}));
  EXPECT_EQ(bias[1][1][4].item<double>(), 3.0);  // the token itself
  EXPECT_EQ(bias[1][1][3].item<double>(), 4.0);
  EXPECT_EQ(bias[1][1][0].item<double>(), 5.0);  // four places back
  EXPECT_EQ(bias[0][0][3].item<double>(), 0.0);
}

}  // namespace
}  // namespace bridle
