#include <ATen/ops/diag.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "linalg/norm_bound.h"
#include "support.h"

namespace bridle {
namespace {

TEST(NormByCholesky, ClustersAtTheTopDoNotDefeatTheGuess) {
  // 300 singular values within 1e-12 … 1e-3 of the largest: the worst case for Lanczos.
  for (const double spread : {1e-12, 1e-9, 1e-6, 1e-3}) {
    const Tensor w =
        test::matrix_with_spectrum(at::linspace(1.0 - spread, 1.0, 300, at::kDouble), 300, 300, 1);
    const auto scaled = scaled_exactly(w);
    const auto bound = norm_by_cholesky(scaled->matrix);
    ASSERT_TRUE(bound);
    const double norm = bound->to_double() * std::ldexp(1.0, scaled->exponent);
    EXPECT_GE(norm, test::spectral_norm(w) * (1 - 1e-14));
    EXPECT_LE(norm, 1.0 + 1e-8);
  }
}

TEST(NormByCholesky, ABoundToTryFirstIsProvedOrPassedOver) {
  for (const auto& [m, n] : {std::pair{200, 200}, {150, 300}, {300, 40}}) {
    const Tensor w = test::normal({m, n}, 3).to(at::kDouble);
    const double norm = test::spectral_norm(w);
    for (const double share :
         {-2.0, 0.0, 0.5, 0.9999, 1 - 1e-12, std::nan(""), static_cast<double>(INFINITY)}) {
      const auto bound = norm_by_cholesky(w, 1e-3, share * norm);
      ASSERT_TRUE(bound);
      EXPECT_GE(bound->to_double(), norm * (1 - 1e-14)) << share;
      EXPECT_LE(bound->to_double(), norm * (1 + 1e-3)) << share;
    }
    for (const double share : {1 + 1e-9, 1.01, 1e40})
      EXPECT_EQ(norm_by_cholesky(w, 1e-3, share * norm)->to_double(), share * norm);
  }
}

TEST(NormByCholesky, OneBoundToTryAMatrix) {
  const Tensor w = test::normal({3, 20, 30}, 4);
  const double norm = test::spectral_norm(w[0]);
  const auto bounds = spectral_norm_bounds(w, {.excess = 1e-3, .try_first = {1.5 * norm, 1e-3, 1e30}});
  EXPECT_EQ(bounds[0]->value.to_double(), 1.5 * norm);
  EXPECT_NEAR(bounds[1]->value.to_double() / test::spectral_norm(w[1]), 1.0, 1e-3);
  EXPECT_EQ(bounds[2]->value.to_double(), 1e30);
  EXPECT_THROW(spectral_norm_bounds(w, {.try_first = {1.0}}), InputError);
}

// All ones, but for a last row and column that hold a single 1: the norm is √(mn) exactly, the Frobenius norm a little more.
Tensor bordered_ones(int64_t m, int64_t n) {
  const Tensor w = at::zeros({m + 1, n + 1}, at::kDouble);
  w.narrow(0, 0, m).narrow(1, 0, n).fill_(1.0);
  w[m][n] = 1.0;
  return w;
}

TEST(ProveByCholesky, LeavesTheRoomThatItsStatementAsksFor) {
  // Norm 441. Square, c₀ is 2e-11 of the norm's square and e next to nothing; tall, it is the other way round. Without the one or the
  // other, a limit 1e-12 above the norm would count as proved.
  for (const Tensor& w : {bordered_ones(441, 441), bordered_ones(441 * 441, 1)}) {
    EXPECT_FALSE(prove_by_cholesky(w, 441.0 * (1 + 1e-12)));
    EXPECT_TRUE(prove_by_cholesky(w, 441.0 * (1 + 1e-10)));
  }
}

TEST(ProveByCholesky, ALimitInsideTheRoundingErrorIsNotProved) {
  // The proof must leave room for its own errors: the exact norm itself is out of reach.
  const Tensor w = test::matrix_with_spectrum(at::linspace(0.5, 1.0, 100, at::kDouble), 100, 100, 2);
  const auto scaled = scaled_exactly(w);
  const double norm = test::spectral_norm(scaled->matrix);
  EXPECT_FALSE(prove_by_cholesky(scaled->matrix, norm));
  EXPECT_TRUE(prove_by_cholesky(scaled->matrix, norm * (1 + 1e-10)));
}

}  // namespace
}  // namespace bridle
