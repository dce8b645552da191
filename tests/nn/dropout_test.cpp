#include "nn/dropout.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Dropout, DropsAShareInTrainingOnly) {
  const at::Tensor x = at::ones({100, 100});
  Pass still{};
  EXPECT_TRUE(dropout(x, 0.3, still).equal(x));
  Pass training{.training = true, .dropout = {.seed = 1, .stream = Stream::dropout, .step = 5}};
  const at::Tensor y = dropout(x, 0.3, training);
  EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), 0.3, 0.02);
  EXPECT_NEAR(y.max().item<double>(), 1.0 / 0.7, 1e-6);
  const at::Tensor next = dropout(x, 0.3, training);  // another call of the same pass
  EXPECT_FALSE(next.equal(y));
  Pass again{.training = true, .dropout = {.seed = 1, .stream = Stream::dropout, .step = 5}};
  EXPECT_TRUE(dropout(x, 0.3, again).equal(y));
}

}  // namespace
}  // namespace bridle
