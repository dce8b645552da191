#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "bridle/linalg.h"
#include "support.h"

namespace bridle {
namespace {

TEST(SpectralNormEstimate, NeverExceedsTheNormAndIsNearIt) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const double size : {1e-30, 1.0, 1e30}) {
      const Tensor w = test::normal({40, 90}, 3).mul(size).to(dtype);
      const double exact = test::spectral_norm(w), seen = spectral_norm_estimate(w, 60).item<double>();
      EXPECT_LE(seen, exact * (1 + 1e-5));
      EXPECT_GT(seen, exact * 0.98);
    }
  }
}

TEST(SpectralNormEstimate, FewRoundsUnderReadAGaussian) {
  const Tensor w = test::normal({512, 128}, 3);
  EXPECT_LT(spectral_norm_estimate(w, 2).item<double>(), 0.95 * test::spectral_norm(w));
}

TEST(TopSingularEstimate, KeptVectorsAddUpOverCalls) {
  const Tensor w = test::normal({60, 60}, 5);
  PowerState kept;
  for (int call = 0; call < 30; ++call) top_singular_estimate(w, kept, 2);
  const TopSingular top = top_singular_estimate(w, kept, 2);
  EXPECT_NEAR(top.sigma.item<double>() / test::spectral_norm(w), 1.0, 1e-3);
  EXPECT_NEAR(top.left[0].norm().item<double>(), 1.0, 1e-12);
  EXPECT_NEAR(top.right[0].norm().item<double>(), 1.0, 1e-12);
}

TEST(TopSingularEstimate, RecoversFromAZeroWeight) {
  PowerState kept;
  EXPECT_EQ(top_singular_estimate(at::zeros({8, 8}), kept).sigma.item<float>(), 0.0F);
  const Tensor w = test::normal({8, 8}, 1, at::kFloat);
  EXPECT_NEAR(top_singular_estimate(w, kept, 100).sigma.item<double>() / test::spectral_norm(w), 1.0, 1e-3);
}

TEST(TopSingularEstimate, BatchesHaveTheirOwnVectors) {
  const Tensor w = test::normal({4, 10, 30}, 7);
  const Tensor together = spectral_norm_estimate(w, 40);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(together[i].item<double>(), spectral_norm_estimate(w[i], 40).item<double>(), 1e-10);
  }
}

}  // namespace
}  // namespace bridle
