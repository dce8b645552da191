#include "nn/positions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace bridle {
namespace {

TEST(Visibility, AreThoseBeforeInTheWindowAndTheDocument) {
  at::Tensor begins = at::zeros({2, 5}, at::kLong);
  begins[1].narrow(0, 3, 2).fill_(3);
  const at::Tensor logits =
      Visibility{.window = 3}.logits(5, 6, begins, at::TensorOptions().dtype(at::kDouble));
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
  const VisibleTokens sees = Visibility{.window = 2}.tokens(begins.data(), 2);
  EXPECT_EQ(sees.begin(0), 0);
  EXPECT_EQ(sees.begin(1), 3);
  EXPECT_EQ(sees.begin(3), 3);
  EXPECT_EQ((Visibility{.window = 2}.tokens(nullptr, 2).begin(5)), 4);
  EXPECT_EQ((Visibility{.window = 2}.offsets(6)), 2);
  EXPECT_EQ(Visibility{}.offsets(6), 6);
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
