#include "nn/rope.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(RopeModule, TurnsEveryPairAndKeepsNorms) {
  const Rope rope({.head_size = 8});
  const at::Tensor x = test::normal({2, 3, 5, 8}, 1).requires_grad_(true);
  const at::Tensor y = rope.forward(x);
  EXPECT_TRUE(y.select(2, 0).equal(x.select(2, 0)));  // position 0 stays
  EXPECT_TRUE(y.square().sum(-1).allclose(x.square().sum(-1)));
  test::expect_gradients([&] { return rope.forward(x); }, {x});
}

TEST(RopeModule, ProductsDependOnTheDistanceAlone) {
  const Rope rope({.head_size = 8});
  const at::Tensor q = test::normal({1, 1, 1, 8}, 1).expand({1, 1, 6, 8});
  const at::Tensor k = test::normal({1, 1, 1, 8}, 2).expand({1, 1, 6, 8});
  const at::Tensor product = rope.forward(q).squeeze().matmul(rope.forward(k).squeeze().t());
  EXPECT_NEAR(product[3][1].item<double>(), product[5][3].item<double>(), 1e-12);
  EXPECT_GT(std::abs(product[3][1].item<double>() - product[3][2].item<double>()), 1e-3);
}

TEST(RopeModule, UsesHalvesAndThePublishedFrequencies) {
  const at::Tensor x = at::Tensor(test::normal({1, 1, 2, 4}, 1)).zero_();
  x[0][0][1][0] = 1.0;  // pair (0, 2), frequency 1
  x[0][0][1][1] = 1.0;  // pair (1, 3), frequency 10000^(−1/2)
  const at::Tensor y = Rope({.head_size = 4}).forward(x)[0][0][1];
  EXPECT_NEAR(y[0].item<double>(), std::cos(1.0), 1e-15);
  EXPECT_NEAR(y[2].item<double>(), std::sin(1.0), 1e-15);
  EXPECT_NEAR(y[3].item<double>(), std::sin(0.01), 1e-15);
}

TEST(RopeModule, HalfTruncatedTurnsHalfOfThePairsDownToTheLastFrequency) {
  const Rope rope({.head_size = 16, .theta = 1024.0, .half_truncated = true});
  const std::vector<double> frequencies = rope_frequencies(rope.options());
  ASSERT_EQ(frequencies.size(), 8U);
  for (size_t i = 0; i < 8; ++i)  // (1/1024)^(0, 1/3, 2/3, 1), then zeros
    EXPECT_NEAR(frequencies[i], i < 4 ? std::pow(1.0 / 1024.0, static_cast<double>(i) / 3.0) : 0.0, 1e-15);
  const at::Tensor x = test::normal({2, 3, 5, 16}, 1).requires_grad_(true);
  const at::Tensor y = rope.forward(x);
  EXPECT_TRUE(y.square().sum(-1).allclose(x.square().sum(-1)));
  for (const int64_t first : {4, 12})  // pairs 4 … 7 stay
    EXPECT_TRUE(y.narrow(-1, first, 4).equal(x.narrow(-1, first, 4)));
  EXPECT_GT(y.narrow(-1, 3, 1).sub(x.narrow(-1, 3, 1)).abs().max().item<double>(), 1e-4);
  test::expect_gradients([&] { return rope.forward(x); }, {x});
}

// A head of four has one pair that turns.
TEST(RopeModule, HalfTruncatedTurnsTheOnlyPairOfAHeadOfFour) {
  EXPECT_EQ(rope_frequencies({.head_size = 4, .half_truncated = true}), (std::vector<double>{1.0, 0.0}));
}

}  // namespace
}  // namespace bridle
