#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "constraint/clip_by_sign.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

TEST(CapBySign, AgreesWithTheExactCapWithinItsStatedExcess) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{40, 40}, {20, 90}, {90, 20}}) {
    const Tensor w = test::normal({m, n}, 1).mul(0.2);
    const double norm = test::spectral_norm(w);
    const double excess = *cap_by_sign_excess(norm, 1.0, std::min(m, n));
    const Tensor capped = cap_by_sign(w, 1.0);
    EXPECT_LE(test::spectral_norm(capped), 1.0 + excess);
    EXPECT_LT(excess, 1e-3);
    EXPECT_LT(largest_difference(capped, cap_by_svd(w, 1.0)), 1e-3);
  }
}

TEST(CapBySign, TheExcessIsNotKnownForHugeOutliers) { EXPECT_FALSE(cap_by_sign_excess(1e6, 1.0, 64)); }

TEST(ClipBySign, AgreesWithTheExactClip) {
  const Tensor w = test::normal({3, 20, 50}, 1).mul(0.2);
  EXPECT_LT(largest_difference(clip_by_sign(w, 0.8, 1.5), clip_by_svd(w, 0.8, 1.5)), 2e-3);
}

}  // namespace
}  // namespace bridle
