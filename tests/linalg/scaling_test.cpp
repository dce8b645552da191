#include "linalg/scaling.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

TEST(FrobeniusNorm, IsRightFromTinyToHugeEntriesInEveryPrecision) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const double size : {1e-36, 1e-30, 1e-12, 1.0, 1e12, 1e30, 1e35}) {
      const Tensor x = at::full({2, 30, 40}, size, dtype);
      const double entry = x[0][0][0].item<double>();
      EXPECT_NEAR(frobenius_norm(x)[1][0][0].item<double>() / entry, std::sqrt(1200.0), 1e-3) << size;
    }
  }
  EXPECT_NEAR(frobenius_norm(at::full({1, 3, 3}, 1e200, at::kDouble)).item<double>(), 3e200, 1e188);
  EXPECT_EQ(frobenius_norm(at::zeros({1, 3, 3})).item<double>(), 0.0);
}

TEST(PowerOfTwoScale, IsAPowerOfTwoNearTheLargestEntry) {
  const Tensor x = at::full({2, 4, 4}, 1.0);
  x[0].mul_(1e30);
  x[1].zero_();
  const Tensor scale = power_of_two_scale(x);
  int exponent = 0;
  EXPECT_EQ(std::frexp(scale[0].item<double>(), &exponent), 0.5);
  EXPECT_LE(scale[0].item<double>(), 1.01e30);
  EXPECT_GE(scale[0].item<double>(), 0.49e30);
  EXPECT_EQ(scale[1].item<double>(), 1.0);
}

TEST(RequireMatrix, SaysWhatItGotAndWhatItTakes) {
  try {
    require_matrix(at::zeros({4}), "orthogonalize");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "[orthogonalize] takes a matrix [m, n] or a batch [b, m, n] with entries, got [4]");
  }
  EXPECT_THROW(require_matrix(at::zeros({0, 4}), "x"), InputError);
  EXPECT_THROW(require_matrix(at::zeros({4, 4}, at::kLong), "x"), InputError);
  EXPECT_THROW(require_matrix(Tensor(), "x"), InputError);
}

TEST(RequireFinite, FindsOneBadEntry) {
  const Tensor x = at::zeros({50, 50});
  EXPECT_NO_THROW(require_finite(x, "x"));
  x[17][3] = std::nan("");
  EXPECT_THROW(require_finite(x, "x"), NumericError);
  x[17][3] = -std::numeric_limits<float>::infinity();
  EXPECT_THROW(require_finite(x, "x"), NumericError);
}

}  // namespace
}  // namespace bridle
