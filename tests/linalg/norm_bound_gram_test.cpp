#include <gtest/gtest.h>

#include "linalg/norm_bound.h"
#include "support.h"

namespace bridle {
namespace {

TEST(NormByGramIteration, IsWithinRoundingOfTheNormForEverySpectrum) {
  for (int kind = 0; kind < test::kSpectra - 1; ++kind) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{60, 60}, {20, 300}, {300, 20}}) {
      const Tensor w = test::matrix_with_spectrum(test::spectrum(kind, std::min(m, n), 1), m, n, 1);
      const auto scaled = scaled_exactly(w);
      const double exact = test::spectral_norm(scaled->matrix);
      const auto bound = norm_by_gram_iteration(scaled->matrix);
      ASSERT_TRUE(bound);
      EXPECT_GE(bound->to_double(), exact * (1 - 1e-15)) << test::spectrum_name(kind);
      EXPECT_LE(bound->to_double(), exact * (1 + 1e-7)) << test::spectrum_name(kind);
    }
  }
}

}  // namespace
}  // namespace bridle
