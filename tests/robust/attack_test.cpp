#include "robust/attack.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "robust/predictions.h"
#include "support.h"

namespace bridle {
namespace {

class Fixed : public Source {
 public:
  Fixed(at::Tensor inputs, at::Tensor labels) : inputs_(std::move(inputs)), labels_(std::move(labels)) {}
  int64_t size() const override { return inputs_.size(0); }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override {
    std::vector<at::Tensor> inputs, labels;
    for (const int64_t i : starts) {
      inputs.push_back(inputs_[i]);
      labels.push_back(labels_[i]);
    }
    return {at::stack(inputs), at::stack(labels)};
  }

 private:
  at::Tensor inputs_, labels_;
};

const ModelOptions kMlp{.kind = "mlp", .layer_sizes = {12, 16, 4}, .final_scale = 2.0};

at::Tensor pixels(int64_t images = 64) {
  return test::normal({images, 12}, 9, at::kFloat).abs().mul(0.3).clamp_max(1.0);
}

// Images with the labels that the model gives them.
std::shared_ptr<Fixed> labelled(const Model& model, const at::Tensor& images) {
  Pass pass{.dtype = at::kFloat};
  return std::make_shared<Fixed>(images, model.forward(images, pass).argmax(1).detach());
}

// A linear classifier's least perturbation is known: the margin over |w_i − w_j|, for the best j.
at::Tensor distances(const Model& model, const at::Tensor& images) {
  const at::NoGradGuard no_gradients;
  Pass pass{.dtype = at::kDouble};
  const at::Tensor logits = model.forward(images, pass);
  const at::Tensor weight = model.params().front().tensor.detach().to(at::kDouble);
  const at::Tensor best = logits.argmax(1);
  const at::Tensor margin = logits.amax(1, true).sub(logits);
  const at::Tensor apart = weight.index_select(0, best).unsqueeze(1).sub(weight).square().sum(2).sqrt();
  return margin.div(apart.clamp_min(1e-12)).scatter(1, best.unsqueeze(1), 1e9).amin(1);
}

TEST(Attack, BreaksALinearClassifierJustOutsideTheExactDistance) {
  const auto model = test::random_model({.kind = "mlp", .layer_sizes = {12, 4}}, 1.0);
  const at::Tensor images = pixels();
  const at::Tensor exact = distances(*model, images);
  const std::vector<double> epsilons{0.02, 0.05, 0.1, 0.2, 0.4};
  const AttackResult result =
      attack(*model, labelled(*model, images), {.epsilons = epsilons, .queries = 0, .box = false});
  EXPECT_EQ(result.accuracy, 1.0);
  for (size_t e = 0; e < epsilons.size(); ++e) {
    const at::Tensor broken = result.broken[static_cast<int64_t>(e)];
    const at::Tensor possible = exact.lt(epsilons[e]);
    const at::Tensor easy = exact.lt(epsilons[e] * 0.999);
    EXPECT_FALSE(broken.logical_and(possible.logical_not()).any().item<bool>()) << epsilons[e];
    EXPECT_TRUE(broken.logical_or(easy.logical_not()).all().item<bool>()) << epsilons[e];
    EXPECT_DOUBLE_EQ(result.points[e].accuracy, 1.0 - broken.to(at::kDouble).mean().item<double>());
  }
  EXPECT_GT(result.points.front().accuracy, 0.5);
  EXPECT_LT(result.points.back().accuracy, 0.5);
}

TEST(Attack, WithoutGradientsFindsNearlyAsMuchOnALinearClassifier) {
  const auto model = test::random_model({.kind = "mlp", .layer_sizes = {12, 4}}, 1.0);
  const AttackResult result =
      attack(*model, labelled(*model, pixels()), {.epsilons = {0.1, 0.3}, .queries = 300, .box = false});
  for (const AttackPoint& point : result.points) {
    EXPECT_GE(point.by_search, point.by_gradient);
    EXPECT_LE(point.by_search, point.by_gradient + 0.1);
    EXPECT_LE(point.accuracy, point.by_gradient);
  }
}

// The test that matters, with a stronger adversary than the default, in and out of the box.
TEST(Attack, NeverSucceedsOnWhatIsCertified) {
  const std::vector<double> epsilons{0.01, 0.03, 0.06, 0.1, 0.2};
  for (const bool box : {true, false}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto model = test::random_model(kMlp, 0.2 + 0.1 * static_cast<double>(seed));
      const auto source = labelled(*model, pixels());
      const AttackResult result = attack(
          *model, source, {.epsilons = epsilons, .restarts = 6, .queries = 100, .box = box, .seed = seed});
      const at::Tensor stands = certify_predictions(*model, source, {.epsilons = epsilons}).stands;
      EXPECT_FALSE(result.broken.logical_and(stands).any().item<bool>());
      EXPECT_TRUE(stands.any().item<bool>());
      EXPECT_TRUE(result.broken.any().item<bool>());
      for (size_t e = 0; e < epsilons.size(); ++e)
        EXPECT_LE(result.points[e].certified_accuracy, result.points[e].accuracy);
    }
  }
}

TEST(Attack, GrowsWithEpsilonAndKeepsTheWorstImagesInsideBallAndBox) {
  const auto model = test::random_model(kMlp, 0.4);
  const at::Tensor images = pixels();
  const std::vector<double> epsilons{0.05, 0.2, 0.6};
  const AttackResult result = attack(*model, labelled(*model, images),
                                     {.epsilons = epsilons, .images = 20, .queries = 20, .examples = 5});
  EXPECT_EQ(result.images, 20);
  ASSERT_EQ(result.examples.sizes(), at::IntArrayRef({4, 5, 12}));
  EXPECT_TRUE(result.examples[0].equal(images.narrow(0, 0, 5)));
  double probability = result.probability;
  double accuracy = result.accuracy;
  for (size_t e = 0; e < epsilons.size(); ++e) {
    const at::Tensor worst = result.examples[static_cast<int64_t>(e) + 1];
    EXPECT_LE(worst.sub(result.examples[0]).to(at::kDouble).norm(2, 1).max().item<double>(), epsilons[e]);
    EXPECT_GE(worst.min().item<double>(), 0.0);
    EXPECT_LE(worst.max().item<double>(), 1.0);
    EXPECT_LE(result.points[e].accuracy, accuracy);
    EXPECT_LT(result.points[e].probability, probability);
    accuracy = result.points[e].accuracy;
    probability = result.points[e].probability;
  }
}

TEST(Attack, IsTheSameAgain) {
  const auto model = test::random_model(kMlp, 0.4);
  const auto source = labelled(*model, pixels());
  const AttackOptions options{.epsilons = {0.1, 0.3}, .queries = 20};
  const AttackResult first = attack(*model, source, options);
  const AttackResult second = attack(*model, source, options);
  EXPECT_TRUE(first.broken.equal(second.broken));
  EXPECT_TRUE(first.examples.equal(second.examples));
}

// The same network behind standardised pixels is as strong in plain units.
TEST(Attack, CountsInPlainPixelsWhereTheModelsAreStandardised) {
  const auto plain = test::random_model({.kind = "mlp", .layer_sizes = {12, 4}}, 1.0);
  const auto model = test::random_model({.kind = "mlp", .layer_sizes = {12, 4}}, 1.0);
  const ChannelStatistics statistics{.mean = {0.0, 0.0, 0.0}, .deviation = {0.5, 0.25, 0.125}};
  at::Tensor scaled = model->params().front().tensor.detach();
  const at::Tensor images = pixels();
  at::Tensor inputs = images.clone();
  for (int64_t channel = 0; channel < 3; ++channel) {
    scaled.narrow(1, 4 * channel, 4).mul_(statistics.deviation.at(static_cast<size_t>(channel)));
    inputs.narrow(1, 4 * channel, 4).div_(statistics.deviation.at(static_cast<size_t>(channel)));
  }
  const std::vector<double> epsilons{0.05, 0.1, 0.2};
  const AttackResult expected =
      attack(*plain, labelled(*plain, images), {.epsilons = epsilons, .queries = 0});
  const AttackResult result = attack(*model, labelled(*model, inputs),
                                     {.epsilons = epsilons, .queries = 0, .standardised = statistics});
  for (size_t e = 0; e < epsilons.size(); ++e)
    EXPECT_NEAR(result.points[e].accuracy, expected.points[e].accuracy, 0.02);
}

TEST(Attack, RefusesWhatItCannotDo) {
  const auto text = test::random_model(test::small_transformer(), 0.3);
  const auto model = test::random_model(kMlp, 0.4);
  const auto source = labelled(*model, pixels());
  const auto with = [&](const AttackOptions& options) { attack(*model, source, options); };
  EXPECT_ERROR(attack(*text, source, {}), InputError, "classifiers of images");
  EXPECT_ERROR(with({.epsilons = {0.5, 0.2}}), InputError, "epsilon = 0.2");
  EXPECT_ERROR(with({.epsilons = {-1.0}}), InputError, "epsilon = -1");
  EXPECT_ERROR(with({.images = 0}), InputError, "images = 0; it is at least 1");
  EXPECT_ERROR(with({.steps = 0}), InputError, "steps = 0");
}

}  // namespace
}  // namespace bridle
