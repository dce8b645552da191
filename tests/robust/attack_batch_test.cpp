#include "robust/attack_batch.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// Two pixels, two classes: the larger pixel wins, so (0.6, 0.4) is 0.2/√2 from the boundary.
struct TwoPixels {
  TwoPixels()
      : model(test::random_model(MlpOptions{.layer_sizes = {2, 2}}, 1.0)), classifier(*model, std::nullopt) {
    model->params().front().tensor.detach().copy_(at::tensor({1.0, 0.0, 0.0, 1.0}).view({2, 2}));
  }
  AttackBatch batch(bool box = true) const {
    const at::Tensor labels = at::tensor({0, 1}, at::kLong);
    return {classifier, at::tensor({0.6, 0.4, 0.9, 0.1}).view({2, 2}).to(at::kFloat), labels, labels, box};
  }
  std::unique_ptr<Model> model;
  Classifier classifier;
};

TEST(AttackBatch, BreaksOnlyWhatWasRight) {
  const TwoPixels two;
  AttackBatch batch = two.batch();
  EXPECT_TRUE(batch.correct().equal(
      at::tensor({1, 0}, at::kLong).to(at::kBool)));  // the second image's label is wrong
  batch.set_epsilon(0.15);
  batch.pgd(batch.by_gradient().worst, 1, 20);
  EXPECT_TRUE(batch.by_gradient().broken.equal(at::tensor({1, 0}, at::kLong).to(at::kBool)));
  EXPECT_FALSE(batch.by_search().broken.any().item<bool>());
}

TEST(AttackBatch, StopsShortOfTheBoundaryWhereEpsilonDoes) {
  const TwoPixels two;
  AttackBatch batch = two.batch();
  batch.set_epsilon(0.14);
  batch.pgd(batch.by_gradient().worst, 0, 40);
  batch.search(200, {.seed = 1});
  EXPECT_FALSE(batch.by_both().broken.any().item<bool>());
  batch.set_epsilon(0.15);
  batch.search(200, {.seed = 2});
  EXPECT_TRUE(batch.by_search().broken[0].item<bool>());
  EXPECT_TRUE(batch.by_both().broken[0].item<bool>());
  EXPECT_FALSE(batch.by_gradient().broken[0].item<bool>());
}

// What differs from the certified class is noticed from the start, whatever the label.
TEST(AttackBatch, NoticesAClassOtherThanTheCertifiedOne) {
  const TwoPixels two;
  const AttackBatch batch = two.batch();
  EXPECT_TRUE(batch.by_both().changed.equal(at::tensor({0, 1}, at::kLong).to(at::kBool)));
}

TEST(AttackBatch, KeepsItsPointsInBallAndBox) {
  const TwoPixels two;
  for (const bool box : {true, false}) {
    AttackBatch batch = two.batch(box);
    const at::Tensor images = batch.by_gradient().worst.clone();
    batch.set_epsilon(0.5);
    batch.pgd(batch.random_start(at::tensor({1.0, -1.0, 1.0, 1.0}).view({2, 2}).to(at::kFloat)), 0, 20);
    const at::Tensor worst = batch.by_both().worst;
    EXPECT_LE(worst.sub(images).to(at::kDouble).norm(2, 1).max().item<double>(), 0.5);
    EXPECT_EQ(worst.max().item<double>() <= 1.0 && worst.min().item<double>() >= 0.0, box);
  }
}

}  // namespace
}  // namespace bridle
