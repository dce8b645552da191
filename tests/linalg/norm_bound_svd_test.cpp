#include <gtest/gtest.h>

#include "linalg/norm_bound.h"
#include "support.h"

namespace bridle {
namespace {

TEST(NormBySvd, CoversTheDecompositionsOwnError) {
  for (int kind = 0; kind < test::kSpectra - 1; ++kind) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{60, 60}, {20, 300}, {300, 20}}) {
      const Tensor w = test::matrix_with_spectrum(test::spectrum(kind, std::min(m, n), 1), m, n, 1);
      const auto scaled = scaled_exactly(w);
      const auto proved_elsewhere = norm_by_cholesky(scaled->matrix);
      const auto bound = norm_by_svd(scaled->matrix);
      ASSERT_TRUE(bound && proved_elsewhere);
      EXPECT_GE(bound->to_double(), test::spectral_norm(scaled->matrix)) << test::spectrum_name(kind);
      EXPECT_LE(bound->to_double(), proved_elsewhere->to_double() * (1 + 1e-8)) << test::spectrum_name(kind);
    }
  }
}

}  // namespace
}  // namespace bridle
