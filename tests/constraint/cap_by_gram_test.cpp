#include "constraint/cap_by_gram.h"

#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

// Singular values from 10⁻³ to `largest`, half of them within 1 % of 1, where signs converge last.
Tensor near_the_cap(int64_t m, int64_t n, double largest, uint64_t seed) {
  const int64_t k = std::min(m, n);
  const Tensor values = test::normal({k}, seed).mul(0.003).add(1.0);
  for (int64_t i = 0; i < k / 4; ++i)
    values[i] = std::pow(10.0, -3.0 * static_cast<double>(i) / static_cast<double>(k));
  for (int64_t i = k / 4; i < k / 2; ++i)
    values[i] = 1.0 + (largest - 1.0) * static_cast<double>(i) / static_cast<double>(k);
  values[0] = largest;
  return test::matrix_with_spectrum(values, m, n, seed + 100);
}

TEST(CapByGram, AgreesWithTheExactCapWithinItsStatedExcess) {
  for (const double largest : {1.0, 1.02, 1.1, 1.22}) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{40, 40}, {20, 90}, {90, 20}}) {
      const Tensor w = near_the_cap(m, n, largest, 1);
      const double reach = 1.0001 * largest, excess = *cap_by_gram_excess(reach, 1.0, std::min(m, n));
      const Tensor capped = *cap_by_gram(w, 1.0, reach);
      EXPECT_LE(test::spectral_norm(capped), 1.0 + excess) << largest << " " << m;
      EXPECT_LT(excess, 2e-4);
      EXPECT_LT(largest_difference(capped, cap_by_svd(w, 1.0)), 1e-3) << largest << " " << m;
    }
  }
}

// One singular value near the cap and n − 1 that are 0: the worst case for the sign, whose argument is small then.
TEST(CapByGram, KeepsItsExcessWhereTheSignConvergesLast) {
  double most = 0.0;
  for (int i = 0; i < 180; ++i) {
    const double above = 1e-6 * std::pow(1.07, i);
    const Tensor w = test::normal({64, 64}, 1).zero_();
    w[0][0] = 1.0 + above;
    const double reach = 1.0 + above, excess = *cap_by_gram_excess(reach, 1.0, 64);
    const double norm = test::spectral_norm(*cap_by_gram(w, 1.0, reach));
    EXPECT_LE(norm, 1.0 + excess) << above;
    most = std::max(most, (norm - 1.0) / excess);
  }
  EXPECT_GT(most, 0.9);  // the statement is not loose
}

TEST(CapByGram, ActsBlockByBlockAndInUnitsOfTheCap) {
  const Tensor w = at::stack({near_the_cap(12, 30, 1.1, 1), near_the_cap(12, 30, 1.05, 2)}).mul(3.0);
  EXPECT_LT(largest_difference(*cap_by_gram(w, 3.0, 3.31), cap_by_svd(w, 3.0)), 3e-3);
}

TEST(CapByGram, WhatIsFarBelowTheCapKeepsItsDigits) {
  const Tensor w = test::normal({24, 60}, 1).mul(0.03).to(at::kFloat);
  EXPECT_LT(test::spectral_norm(w), 0.5);
  EXPECT_LT(largest_difference(*cap_by_gram(w, 1.0, 1.1), w), 1e-7);
}

TEST(CapByGram, SeesThatAMatrixIsFartherAboveTheCapThanStated) {
  for (const double largest : {1.15, 1.3, 2.0, 30.0}) {
    const Tensor w = near_the_cap(40, 40, largest, 1);
    const auto capped = cap_by_gram(w, 1.0, 1.01);
    EXPECT_EQ(capped.has_value(), largest < 1.25) << largest;
    if (capped) {
      EXPECT_LT(largest_difference(*capped, cap_by_svd(w, 1.0)), 1e-3);
    }
  }
}

TEST(CapByGram, IsNotMeantForMatricesFarAboveTheCap) {
  EXPECT_FALSE(cap_by_gram_excess(1.3, 1.0, 8));
  EXPECT_TRUE(cap_by_gram_excess(1.2, 1.0, 8));
}

}  // namespace
}  // namespace bridle
