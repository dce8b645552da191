#include <ATen/ops/diag.h>
#include <ATen/ops/linspace.h>
#include <gtest/gtest.h>

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
