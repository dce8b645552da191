#include "linalg/lanczos.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

TEST(LargestEigenvalueEstimate, AgreesWithAllEigenvaluesForTroublesomeSpectra) {
  for (int kind = 0; kind < test::kSpectra; ++kind) {
    for (const int64_t n : {1, 2, 17, 150}) {
      const at::Tensor w = test::matrix_with_spectrum(test::spectrum(kind, n, 1), n, n, 1);
      const at::Tensor g = at::mm(w, w.t());
      const double exact = at::linalg_eigvalsh(g).max().item<double>();
      EXPECT_NEAR(largest_eigenvalue_estimate(g).value, exact, 1e-11 * exact)
          << test::spectrum_name(kind) << " " << n;
    }
  }
}

TEST(LargestEigenvalueEstimate, StopsAtAnInvariantSubspace) {
  EXPECT_DOUBLE_EQ(largest_eigenvalue_estimate(at::eye(50, at::kDouble).mul(3.0)).value, 3.0);
  EXPECT_EQ(largest_eigenvalue_estimate(at::zeros({5, 5}, at::kDouble)).value, 0.0);
}

TEST(LargestEigenvalueEstimate, SaysWhenItHasNotConverged) {
  const at::Tensor cluster =
      test::matrix_with_spectrum(at::linspace(0.99, 1.0, 400, at::kDouble), 400, 400, 1);
  const EigenvalueEstimate few = largest_eigenvalue_estimate(at::mm(cluster, cluster.t()), 0.0, 20);
  EXPECT_GT(few.uncertainty, 1e-7);
  EXPECT_LT(few.value, 1.0);
  const EigenvalueEstimate rough = largest_eigenvalue_estimate(at::mm(cluster, cluster.t()), 1e-4);
  EXPECT_LE(rough.uncertainty, 1e-4);
  EXPECT_NEAR(rough.value, 1.0, 2e-4);
}

}  // namespace
}  // namespace bridle
