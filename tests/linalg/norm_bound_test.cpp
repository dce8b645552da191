#include "linalg/norm_bound.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "support.h"

namespace bridle {
namespace {

constexpr BoundMethod kMethods[] = {BoundMethod::cholesky, BoundMethod::gram, BoundMethod::svd};

TEST(SpectralNormBound, IsTightAndNeverBelowForMatricesOfKnownNorm) {
  for (const BoundMethod method : kMethods) {
    // Diagonal and rank-one matrices whose norm is an exact double.
    for (const double value : {3.0, 0.1, 1e-300, 1e300}) {
      const auto bound = spectral_norm_bound(at::eye(5, 9, at::kDouble).mul(value), {.method = method});
      ASSERT_TRUE(bound);
      EXPECT_EQ(bound->method, method);
      EXPECT_GE(bound->value, UpperBound(value));
      EXPECT_LE(bound->value, UpperBound(value * (1 + 1e-9)));
    }
    const auto ones = spectral_norm_bound(at::full({64, 16}, 1.0), {.method = method});
    ASSERT_TRUE(ones);
    EXPECT_GE(ones->value, UpperBound(32.0));
    EXPECT_LE(ones->value, UpperBound(32.0 + 1e-7));
  }
}

TEST(SpectralNormBound, ZeroHasBoundZeroOrNearly) {
  EXPECT_TRUE(spectral_norm_bound(at::zeros({4, 7}))->value.is_zero());
  for (const BoundMethod method : kMethods)
    EXPECT_LT(spectral_norm_bound(at::zeros({4, 7}), {.method = method})->value, UpperBound(1e-100));
}

TEST(SpectralNormBound, NaNAndInfHaveNoBound) {
  for (const BoundMethod method : kMethods) {
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      const Tensor w = test::normal({6, 6}, 1);
      w[2][3] = bad;
      EXPECT_FALSE(spectral_norm_bound(w, {.method = method}));
      EXPECT_FALSE(prove_spectral_norm(w, 1e300));
    }
  }
}

TEST(SpectralNormBound, BlocksAreBoundedEachForItself) {
  const Tensor w = test::normal({3, 8, 20}, 1, at::kFloat);
  w[1].mul_(100.0);
  const auto bounds = spectral_norm_bounds(w);
  ASSERT_EQ(bounds.size(), 3U);
  for (int64_t i = 0; i < 3; ++i) {
    const double exact = test::spectral_norm(w[i]);
    EXPECT_NEAR(bounds[static_cast<size_t>(i)]->value.to_double() / exact, 1.0, 1e-9);
  }
}

TEST(ProveSpectralNorm, HoldsJustAboveTheNormAndFailsJustBelow) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {30, 30}, {20, 200}, {200, 20}}) {
    for (const double size : {1e-30, 1.0, 1e30}) {
      const Tensor w = test::normal({m, n}, 2).mul(size);
      const double norm = test::spectral_norm(w);
      EXPECT_TRUE(prove_spectral_norm(w, norm * (1 + 1e-9)));
      EXPECT_FALSE(prove_spectral_norm(w, norm * (1 - 1e-9)));
    }
  }
  EXPECT_TRUE(prove_spectral_norm(at::zeros({3, 3}), 0.0));
  EXPECT_FALSE(prove_spectral_norm(at::eye(3), -1.0));
  EXPECT_FALSE(prove_spectral_norm(at::eye(3), std::nan("")));
  EXPECT_FALSE(prove_spectral_norm(at::eye(3), 0.0));
}

TEST(RowRmsBound, IsTheLargestRowRoundedUp) {
  const Tensor table = at::full({5, 4}, 0.5);
  table[3].fill_(1.0);
  const auto bound = row_rms_bound(table);
  ASSERT_TRUE(bound);
  EXPECT_GE(*bound, UpperBound(1.0));
  EXPECT_LE(*bound, UpperBound(1.0 + 1e-14));
  table[0][0] = std::nan("");
  EXPECT_FALSE(row_rms_bound(table));
}

TEST(RoundingError, IsGammaRoundedUp) {
  EXPECT_GE(rounding_error(1), 0x1p-53);
  EXPECT_LT(rounding_error(1), 0x1p-53 * (1 + 1e-15));
  EXPECT_NEAR(rounding_error(1000) * 0x1p53, 1000.0, 1e-9);
}

TEST(SumBounds, CoverTheFloatingSumsError) {
  const Tensor x = at::full({1000001}, 0.1, at::kDouble);
  EXPECT_GE(sum_bound(x), UpperBound(100000.1));
  EXPECT_GE(sum_of_squares_bound(x), UpperBound(10000.01));
  EXPECT_LE(sum_of_squares_bound(x), UpperBound(10000.01 * (1 + 1e-9)));
}

TEST(ProveSpectralNorm, NeverProvesLessThanANormThatIsKnownExactly) {
  // All ones: the norm is √(mn), an integer for these sizes. The proof must leave room for its own errors: with none, the
  // factorisation of a matrix that is indefinite by one unit in the last place often ends well.
  for (const int64_t a : {1, 2, 3, 5, 8, 13, 21}) {
    for (const int64_t b : {1, 2, 4, 7, 11}) {
      const double norm = static_cast<double>(a * b);
      for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        const Tensor w = at::full({a * a, b * b}, 1.0, dtype);
        EXPECT_FALSE(prove_spectral_norm(w, std::nextafter(norm, 0.0))) << a << " " << b;
        EXPECT_TRUE(prove_spectral_norm(w, norm * (1 + 1e-9))) << a << " " << b;
        for (const BoundMethod method : kMethods) {
          EXPECT_GE(spectral_norm_bound(w, {.method = method})->value, UpperBound(norm)) << a << " " << b;
        }
      }
    }
  }
}

TEST(SpectralNormBound, TakesOneMatrixOnly) {
  EXPECT_THROW(spectral_norm_bound(test::normal({2, 3, 4}, 1)), InputError);
  EXPECT_TRUE(spectral_norm_bound(test::normal({1, 3, 4}, 1)));
}

TEST(SpectralNormBound, RecordsNoGradients) {
  EXPECT_TRUE(spectral_norm_bound(test::normal({6, 6}, 1).requires_grad_()));
}

}  // namespace
}  // namespace bridle
