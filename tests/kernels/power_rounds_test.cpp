#include "kernels/power_rounds.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;
using test::normal;

TEST(PowerRounds, AgreesWithItsPlainTwinForEveryShapeAndSize) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const auto& [m, n] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {33, 17}, {300, 70}, {70, 300}, {513, 400}}) {
      for (const double size : {1e-30, 1.0, 1e30}) {
        const at::Tensor w = normal({2, m, n}, 1).mul(size).to(dtype), v = normal({2, n}, 2).to(dtype);
        const PowerRounds fast = power_rounds(w, v, 6), plain = power_rounds_plain(w, v, 6);
        const double tolerance = 200 * test::epsilon(dtype);
        EXPECT_LT(largest_difference(fast.sigma.div(plain.sigma), at::ones_like(plain.sigma)), tolerance);
        EXPECT_LT(largest_difference(fast.left, plain.left), tolerance);
        EXPECT_LT(largest_difference(fast.right, plain.right), tolerance);
      }
    }
  }
}

TEST(PowerRounds, TheNumberOfThreadsChangesNoBit) {
  const at::Tensor w = normal({1, 700, 300}, 3, at::kFloat), v = normal({1, 300}, 4, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const PowerRounds one = power_rounds(w, v, 8);
  at::set_num_threads(3);
  const PowerRounds three = power_rounds(w, v, 8);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.right.equal(three.right));
  EXPECT_TRUE(one.sigma.equal(three.sigma));
}

TEST(PowerRounds, ZeroGivesZeroAndNaNPassesThrough) {
  const at::Tensor v = normal({1, 4}, 1);
  const PowerRounds zero = power_rounds(at::zeros({1, 3, 4}, at::kDouble), v, 5);
  EXPECT_EQ(zero.sigma.item<double>(), 0.0);
  EXPECT_EQ(zero.right.abs().max().item<double>(), 0.0);
  const at::Tensor w = normal({1, 3, 4}, 1);
  w[0][1][1] = std::nan("");
  EXPECT_TRUE(std::isnan(power_rounds(w, v, 5).sigma.item<double>()));
}

TEST(PowerRounds, LeavesItsArgumentsAloneAlsoTransposed) {
  const at::Tensor w = normal({1, 20, 30}, 1).transpose(1, 2), v = normal({1, 20}, 2);
  const at::Tensor before = v.clone();
  const PowerRounds fast = power_rounds(w, v, 4), plain = power_rounds_plain(w, v, 4);
  EXPECT_TRUE(v.equal(before));
  EXPECT_LT(largest_difference(fast.right, plain.right), 1e-13);
}

TEST(PowerRounds, DenormalAndHugeEntriesGiveNumbers) {
  for (const double size : {1e-44, 1e-39, 1e33}) {
    const at::Tensor w = at::ones({1, 8, 8}, at::kFloat).mul(size), v = normal({1, 8}, 1, at::kFloat);
    EXPECT_NEAR(power_rounds(w, v, 5).sigma.item<double>() / w[0][0][0].item<double>(), 8.0, 1e-3) << size;
    EXPECT_NEAR(power_rounds_plain(w, v, 5).sigma.item<double>() / w[0][0][0].item<double>(), 8.0, 1e-3)
        << size;
  }
}

}  // namespace
}  // namespace bridle
