#include "robust/siege.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// Two pixels, two classes: the larger pixel wins, so (0.6, 0.4) is 0.2/√2 from the boundary.
struct Duel {
  Duel() : model(test::random_model(MlpOptions{.layer_sizes = {2, 2}}, 1.0)), victim(*model, std::nullopt) {
    model->params().front().tensor.detach().copy_(at::tensor({1.0, 0.0, 0.0, 1.0}).view({2, 2}));
  }
  Siege siege(bool box = true) const {
    const at::Tensor labels = at::tensor({0, 1}, at::kLong);
    return {victim, at::tensor({0.6, 0.4, 0.9, 0.1}).view({2, 2}).to(at::kFloat), labels, labels, box};
  }
  std::unique_ptr<Model> model;
  Victim victim;
};

TEST(Siege, BreaksOnlyWhatWasRight) {
  const Duel duel;
  Siege siege = duel.siege();
  EXPECT_TRUE(
      siege.right().equal(at::tensor({1, 0}, at::kLong).to(at::kBool)));  // the second image's label is wrong
  siege.allow(0.15);
  siege.climb(siege.by_gradient().worst, 1, 20);
  EXPECT_TRUE(siege.by_gradient().broken.equal(at::tensor({1, 0}, at::kLong).to(at::kBool)));
  EXPECT_FALSE(siege.by_search().broken.any().item<bool>());
}

TEST(Siege, StopsShortOfTheBoundaryWhereEpsilonDoes) {
  const Duel duel;
  Siege siege = duel.siege();
  siege.allow(0.14);
  siege.climb(siege.by_gradient().worst, 0, 40);
  siege.search(200, {.seed = 1});
  EXPECT_FALSE(siege.by_both().broken.any().item<bool>());
  siege.allow(0.15);
  siege.search(200, {.seed = 2});
  EXPECT_TRUE(siege.by_search().broken[0].item<bool>());
  EXPECT_TRUE(siege.by_both().broken[0].item<bool>());
  EXPECT_FALSE(siege.by_gradient().broken[0].item<bool>());
}

// What differs from the certified class is noticed from the start, whatever the label.
TEST(Siege, NoticesAClassOtherThanTheCertifiedOne) {
  const Duel duel;
  const Siege siege = duel.siege();
  EXPECT_TRUE(siege.by_both().changed.equal(at::tensor({0, 1}, at::kLong).to(at::kBool)));
}

TEST(Siege, KeepsItsPointsInBallAndBox) {
  const Duel duel;
  for (const bool box : {true, false}) {
    Siege siege = duel.siege(box);
    const at::Tensor images = siege.by_gradient().worst.clone();
    siege.allow(0.5);
    siege.climb(siege.start(at::tensor({1.0, -1.0, 1.0, 1.0}).view({2, 2}).to(at::kFloat)), 0, 20);
    const at::Tensor worst = siege.by_both().worst;
    EXPECT_LE(worst.sub(images).to(at::kDouble).norm(2, 1).max().item<double>(), 0.5);
    EXPECT_EQ(worst.max().item<double>() <= 1.0 && worst.min().item<double>() >= 0.0, box);
  }
}

}  // namespace
}  // namespace bridle
