#include "bridle/random.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Random, TheSameKeyGivesTheSameNumbersOnAnyNumberOfThreads) {
  const RandomKey key{.seed = 7, .stream = Stream::test, .step = 3};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = random_normal({100, 1001}, key);
  at::set_num_threads(3);
  const at::Tensor three = random_normal({100, 1001}, key);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
}

TEST(Random, SeedStreamAndStepEachChangeEveryNumber) {
  const RandomKey key{.seed = 7, .stream = Stream::test, .step = 3};
  const at::Tensor base = random_uniform({1000}, key, at::kDouble);
  for (const RandomKey& other :
       {RandomKey{8, Stream::test, 3}, RandomKey{7, Stream::search, 3}, RandomKey{7, Stream::test, 4}}) {
    EXPECT_EQ(base.eq(random_uniform({1000}, other, at::kDouble)).sum().item<int64_t>(), 0);
  }
}

TEST(Random, AShorterTensorIsThePrefixOfALongerOne) {
  const RandomKey key{.seed = 1};
  EXPECT_TRUE(random_normal({33}, key).equal(random_normal({1000}, key).narrow(0, 0, 33)));
}

TEST(Random, MomentsAreThoseOfTheDistribution) {
  const at::Tensor z = random_normal({200000}, {.seed = 5}, at::kDouble);
  EXPECT_NEAR(z.mean().item<double>(), 0.0, 0.01);
  EXPECT_NEAR(z.square().mean().item<double>(), 1.0, 0.02);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3.0, 0.1);
  const at::Tensor u = random_uniform({200000}, {.seed = 5}, at::kDouble);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 0.005);
  EXPECT_GT(u.min().item<double>(), 0.0);
  EXPECT_LT(u.max().item<double>(), 1.0);
}

TEST(Random, IntegersCoverTheirRangeEvenly) {
  const at::Tensor x = random_integers({70000}, 7, {.seed = 9});
  EXPECT_EQ(x.min().item<int64_t>(), 0);
  EXPECT_EQ(x.max().item<int64_t>(), 6);
  for (int64_t value = 0; value < 7; ++value)
    EXPECT_NEAR(static_cast<double>(x.eq(value).sum().item<int64_t>()), 10000.0, 400.0);
}

TEST(Random, GivesThePublishedPhiloxNumbersForKeyAndCounterZero) {
  // Known answer of Philox 4×32-10: 6627e8d5 e169c58d bc57ac4c 9b00dbd8. A change here would change every
  // run.
  const at::Tensor x =
      random_integers({2}, uint64_t{1} << 63, {.seed = 0, .stream = Stream::initial_weights});
  EXPECT_EQ(x[0].item<int64_t>(), int64_t{0x6627e8d5e169c58d} >> 1);
  EXPECT_EQ(static_cast<uint64_t>(x[1].item<int64_t>()), uint64_t{0xbc57ac4c9b00dbd8} >> 1);
}

}  // namespace
}  // namespace bridle
