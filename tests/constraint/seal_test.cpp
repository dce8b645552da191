#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Seal, BringsWeightsBelowTheCapByTheVerifiedBoundInEveryPrecision) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const double size : {1e-3, 1.0, 1e3}) {
      const Param w{.name = "w", .tensor = test::normal({40, 70}, 1).mul(5.0 * size).to(dtype), .blocks = 4};
      const double before = test::spectral_norm(w.block_view()[0]);
      EXPECT_FALSE(prove_norm(w, size));
      EXPECT_TRUE(seal_(w, size));
      EXPECT_TRUE(prove_norm(w, size));
      EXPECT_LT(test::spectral_norm(w.block_view()[0]), before);
      EXPECT_GT(test::spectral_norm(w.block_view()[0]), 0.97 * size * w.unit());
      const Tensor sealed = w.tensor.clone();
      EXPECT_FALSE(seal_(w, size));
      EXPECT_TRUE(w.tensor.equal(sealed));
    }
  }
}

TEST(Seal, TouchesOnlyTheBlocksThatAreAbove) {
  const Param w{.name = "w", .tensor = test::normal({8, 8}, 1), .blocks = 2};
  w.block_view()[0].mul_(0.01);
  const Tensor small = w.block_view()[0].clone();
  EXPECT_TRUE(seal_(w, 1.0));
  EXPECT_TRUE(w.block_view()[0].equal(small));
}

TEST(Seal, CapsTheRowsOfATable) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Param table{.name = "e", .tensor = test::normal({30, 50}, 1).to(dtype), .role = Role::embedding};
    EXPECT_TRUE(seal_(table, 1.0));
    EXPECT_TRUE(prove_norm(table, 1.0));
    EXPECT_GT(table.tensor.to(at::kDouble).square().mean(-1).max().item<double>(), 0.97);
  }
}

TEST(Seal, GivesUpOnNaNWithAnErrorAndOnNonsenseCaps) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  EXPECT_THROW(seal_(w, 0.0), InputError);
  EXPECT_THROW(seal_(w, std::nan("")), InputError);
  w.tensor[0][0] = std::nan("");
  EXPECT_THROW(seal_(w, 1.0), PromiseError);
  const Param table{.name = "e", .tensor = w.tensor, .role = Role::embedding};
  EXPECT_THROW(seal_(table, 1.0), PromiseError);
}

TEST(Seal, RefusesAnInfiniteCapAndLeavesTheWeightAlone) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Param w{.name = "w", .tensor = test::normal({4, 4}, 1).to(dtype)};
    const Tensor before = w.tensor.clone();
    EXPECT_THROW(seal_(w, std::numeric_limits<double>::infinity()), InputError);
    EXPECT_THROW(prove_norm(w, std::numeric_limits<double>::infinity()), InputError);
    EXPECT_FALSE(seal_(w, 1e300));
    EXPECT_TRUE(w.tensor.equal(before));
  }
}

TEST(Seal, AFailureLeavesEveryBlockAlone) {
  const Param w{.name = "w", .tensor = test::normal({8, 8}, 1).mul(100.0), .blocks = 2};
  w.tensor[7][7] = std::nan("");
  const Tensor before = w.tensor.clone();
  EXPECT_THROW(seal_(w, 1.0), PromiseError);
  EXPECT_TRUE(w.tensor.allclose(before, 0, 0, /*equal_nan=*/true));
}

TEST(NormBound, IsTheLargestBlocksNormInRmsUnitsRoundedUp) {
  const Param w{.name = "w", .tensor = test::normal({12, 30}, 1), .blocks = 3};
  double largest = 0.0;
  for (const Tensor& block : w.block_view().unbind(0))
    largest = std::max(largest, test::spectral_norm(block));
  const double exact = largest * std::sqrt(30.0 / 4.0), bound = norm_bound(w)->to_double();
  EXPECT_GE(bound, exact * (1 - 1e-15));
  EXPECT_LE(bound, exact * (1 + 1e-8));
  w.tensor[0][0] = std::nan("");
  EXPECT_FALSE(norm_bound(w));
}

}  // namespace
}  // namespace bridle
