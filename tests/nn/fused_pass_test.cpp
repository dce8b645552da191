#include "nn/fused_pass.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// Memory for evaluation is smaller and serves no step; memory for a step serves both.
TEST(FusedPass, StepsAndEvaluationsMayFollowOneAnotherInAnyOrder) {
  const auto model = test::random_model(test::small_transformer());
  const at::Tensor in = test::normal({6, 8}, 1).mul(1e4).to(at::kLong).remainder(11);
  const at::Tensor out = test::normal({6, 8}, 2).mul(1e4).to(at::kLong).remainder(11);
  test::Fused one(*model), another(*model);
  const LossAndGradients step = one.run(in, out, true);
  EXPECT_EQ(one.run(in, out, false).loss, step.loss);
  EXPECT_EQ(another.run(in, out, false).loss, step.loss);
  const LossAndGradients later = another.run(in, out, true);
  EXPECT_EQ(later.loss, step.loss);
  for (size_t i = 0; i < step.gradients.size(); ++i)
    EXPECT_TRUE(later.gradients[i].equal(step.gradients[i])) << model->params()[i].name;
  EXPECT_NE(another.run(in.narrow(0, 0, 2), out.narrow(0, 0, 2), false).loss, step.loss);
  EXPECT_EQ(another.run(in, out, false).loss, step.loss);
}

}  // namespace
}  // namespace bridle
