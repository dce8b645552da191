#include "robust/cosine_waves.h"

#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

TEST(CosineWaves, HaveLengthOneAndOneChannel) {
  const at::Tensor waves = cosine_waves(300, 3 * 8 * 8, {.seed = 1});
  EXPECT_NEAR(waves.norm(2, 1).min().item<double>(), 1.0, 1e-5);
  EXPECT_NEAR(waves.norm(2, 1).max().item<double>(), 1.0, 1e-5);
  const at::Tensor used = waves.view({300, 3, 64}).abs().amax(2).gt(0.0);
  EXPECT_TRUE(used.sum(1).eq(1).all().item<bool>());
  EXPECT_TRUE(used.any(0).all().item<bool>());  // each channel is someone's
}

// A wave along one line of the picture crosses zero as often as its frequency says; the lowest are the most frequent.
TEST(CosineWaves, AreMostlyOfLowFrequency) {
  const at::Tensor waves = cosine_waves(2000, 64, {.seed = 2}).view({2000, 8, 8});
  const at::Tensor lines = waves.select(1, 0).gt(0.0);
  const at::Tensor crossings = lines.narrow(1, 1, 7).ne(lines.narrow(1, 0, 7)).sum(1);
  EXPECT_EQ(crossings.max().item<int64_t>(), 7);
  EXPECT_EQ(crossings.min().item<int64_t>(), 0);
  EXPECT_LT(crossings.to(at::kDouble).mean().item<double>(), 3.0);  // 3.5 if all were as frequent
}

TEST(CosineWaves, AreTheSameForTheSameKeyAlone) {
  EXPECT_TRUE(cosine_waves(5, 12, {.seed = 3}).equal(cosine_waves(5, 12, {.seed = 3})));
  EXPECT_FALSE(cosine_waves(5, 12, {.seed = 3}).equal(cosine_waves(5, 12, {.seed = 4})));
}

TEST(CosineWaves, CoverInputsThatAreNoPicture) {
  const at::Tensor waves = cosine_waves(50, 7, {.seed = 5});
  EXPECT_NEAR(waves.norm(2, 1).sub(1.0).abs().max().item<double>(), 0.0, 1e-5);
}

}  // namespace
}  // namespace bridle
