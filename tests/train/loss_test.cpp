#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/train.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Loss, IsTheMeanCrossEntropy) {
  const auto model = make_model(MlpOptions{.layer_sizes = {4, 3}}, 1);
  const Batch batch{test::normal({6, 4}, 1, at::kFloat), at::tensor({0, 1, 2, 0, 1, 2}, at::kLong)};
  Pass pass;
  const LossAndGradients zero = loss_and_gradients(*model, batch, pass);  // the only layer starts at zero
  EXPECT_NEAR(zero.loss, std::log(3.0), 1e-6);
  ASSERT_EQ(zero.gradients.size(), 1U);
  EXPECT_EQ(zero.gradients[0].sizes(), model->params()[0].tensor.sizes());
  EXPECT_LT(zero.gradients[0].sum().abs().item<double>(), 1e-5);  // softmax moves no constant
  EXPECT_NEAR(zero.accuracy, 1.0 / 3.0, 1e-12);                   // equal logits: the first class is taken
}

// Equal logits: with a margin m the right one is m behind, in every precision.
TEST(Loss, TakesAMarginOffTheRightLogit) {
  const auto model = make_model(MlpOptions{.layer_sizes = {4, 3}}, 1);
  const Batch batch{test::normal({6, 4}, 1, at::kFloat), at::tensor({0, 1, 2, 0, 1, 2}, at::kLong)};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Pass pass{.dtype = dtype, .margin = 0.5};
    const LossAndGradients result = loss_and_gradients(*model, batch, pass);
    EXPECT_NEAR(result.loss, std::log(2.0 + std::exp(-0.5)) + 0.5, 1e-6);
    EXPECT_NEAR(result.accuracy, 1.0 / 3.0, 1e-12);  // of the logits as they are
  }
}

// Numbers to predict: the mean square, whatever the model could fuse, and what it leaves of a variance of 1.
TEST(Loss, OfNumbersIsTheMeanSquare) {
  const auto model = make_model(MlpOptions{.layer_sizes = {4, 2}}, 1);  // its outputs are zero
  const at::Tensor targets = test::normal({6, 2}, 2, at::kFloat);
  const Batch batch{test::normal({6, 4}, 1, at::kFloat), targets};
  Pass pass;
  const LossAndGradients result = loss_and_gradients(*model, batch, pass);
  EXPECT_NEAR(result.loss, targets.square().mean().item<double>(), 1e-6);
  EXPECT_NEAR(result.accuracy, 1.0 - result.loss, 1e-12);
  const at::Tensor slope = targets.t().matmul(batch.inputs).mul(-2.0 / 12.0);
  EXPECT_TRUE(result.gradients[0].allclose(slope, 1e-4, 1e-6));
  EXPECT_EQ(loss_only(*model, batch, pass).loss, result.loss);
}

TEST(Loss, IsTheSameWithoutGradients) {
  const auto model = make_model(MlpOptions{.layer_sizes = {4, 8, 3}}, 1);
  const Batch batch{test::normal({6, 4}, 1, at::kFloat), at::tensor({0, 1, 2, 0, 1, 2}, at::kLong)};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    Pass pass{.dtype = dtype, .margin = 0.5};
    const LossAndGradients alone = loss_only(*model, batch, pass);
    const LossAndGradients both = loss_and_gradients(*model, batch, pass);
    EXPECT_EQ(alone.loss, both.loss);
    EXPECT_EQ(alone.accuracy, both.accuracy);
    EXPECT_TRUE(alone.gradients.empty());
  }
}

}  // namespace
}  // namespace bridle
