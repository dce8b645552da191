#include "bridle/attack.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "bridle/error.h"
#include "bridle/predictions.h"
#include "file_support.h"
#include "nn_support.h"
#include "source_support.h"
#include "support.h"

namespace bridle {
namespace {

const MlpOptions kMlp{.layer_sizes = {12, 16, 4}, .final_scale = 2.0};

at::Tensor pixels(int64_t images = 64, uint64_t seed = 9) {
  return test::normal({images, 12}, seed, at::kFloat).abs().mul(0.3).clamp_max(1.0);
}

// A linear classifier's least perturbation is known: the margin over |w_i − w_j|, for the best j.
at::Tensor distances(const Model& model, const at::Tensor& inputs, const at::Tensor& weight) {
  const at::NoGradGuard no_gradients;
  Pass pass{.dtype = at::kDouble};
  const at::Tensor logits = model.forward(inputs, pass);
  const at::Tensor best = logits.argmax(1);
  const at::Tensor margin = logits.amax(1, true).sub(logits);
  const at::Tensor apart = weight.index_select(0, best).unsqueeze(1).sub(weight).square().sum(2).sqrt();
  return margin.div(apart.clamp_min(1e-12)).scatter(1, best.unsqueeze(1), 1e9).amin(1);
}

at::Tensor distances(const Model& model, const at::Tensor& images) {
  return distances(model, images, model.params().front().tensor.detach().to(at::kDouble));
}

// Nothing falls inside the exact distance, everything just outside it.
void expect_exact(const AttackResult& result, const at::Tensor& exact) {
  for (size_t e = 0; e < result.points.size(); ++e) {
    const double epsilon = result.points[e].epsilon;
    const at::Tensor broken = result.broken[static_cast<int64_t>(e)];
    EXPECT_FALSE(broken.logical_and(exact.ge(epsilon)).any().item<bool>()) << epsilon;
    EXPECT_TRUE(broken.logical_or(exact.ge(0.999 * epsilon)).all().item<bool>()) << epsilon;
    EXPECT_DOUBLE_EQ(result.points[e].accuracy, 1.0 - broken.to(at::kDouble).mean().item<double>());
  }
  EXPECT_GT(result.points.front().accuracy, 0.5);
  EXPECT_LT(result.points.back().accuracy, 0.5);
}

TEST(Attack, BreaksALinearClassifierJustOutsideTheExactDistance) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {12, 4}}, 1.0);
  const at::Tensor images = pixels();
  const AttackResult result = attack(*model, test::labelled(*model, images),
                                     {.epsilons = {0.02, 0.05, 0.1, 0.2, 0.4}, .queries = 0, .box = false});
  EXPECT_EQ(result.accuracy, 1.0);
  expect_exact(result, distances(*model, images));
}

TEST(Attack, WithoutGradientsFindsNearlyAsMuchOnALinearClassifier) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {12, 4}}, 1.0);
  const AttackResult result = attack(*model, test::labelled(*model, pixels()),
                                     {.epsilons = {0.1, 0.3}, .queries = 300, .box = false});
  for (const AttackPoint& point : result.points) {
    EXPECT_GE(point.accuracy_by_search, point.accuracy_by_gradient);
    EXPECT_LE(point.accuracy_by_search, point.accuracy_by_gradient + 0.1);
    EXPECT_LE(point.accuracy, point.accuracy_by_gradient);
  }
}

// The test that matters: other networks and images each time, shallow and deep, in the box and out of it.
TEST(Attack, NeverSucceedsOnWhatIsCertified) {
  const std::vector<double> epsilons{0.01, 0.03, 0.06, 0.1, 0.2};
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const MlpOptions deep{.layer_sizes = {12, 10, 8, 4},
                          .activation = seed % 4 == 1 ? ActivationKind::maxmin : ActivationKind::relu};
    const auto model = test::random_model(seed % 2 == 0 ? kMlp : deep, 0.3, 100 * seed + 1);
    const auto source = test::labelled(*model, pixels(64, seed));
    const AttackResult result =
        attack(*model, source,
               {.epsilons = epsilons, .restarts = 6, .queries = 60, .box = seed % 4 < 2, .seed = seed});
    const at::Tensor stands =
        certify_predictions(*model, source, {.epsilons = epsilons}).of("float32").stands;
    EXPECT_FALSE(result.broken.logical_and(stands).any().item<bool>());
    EXPECT_TRUE(stands.any().item<bool>());
    EXPECT_TRUE(result.broken.any().item<bool>());
    for (size_t e = 0; e < epsilons.size(); ++e)
      EXPECT_LE(result.points[e].certified_accuracy, result.points[e].accuracy);
  }
}

// Images that lie far from all others when they are certified, and at a boundary when they are attacked.
class Deceitful : public Source {
 public:
  explicit Deceitful(const Model& model) {
    const at::Tensor images = pixels(200);
    const at::Tensor far = distances(model, images).argsort();
    clear_ = images[far[-1].item<int64_t>()];
    close_ = images[far[0].item<int64_t>()];
  }
  int64_t size() const override { return 1; }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t>) const override {
    const at::Tensor image = reads_++ == 0 ? clear_ : close_;
    return {image.unsqueeze(0), at::zeros({1}, at::kLong)};
  }

 private:
  at::Tensor clear_, close_;
  mutable int reads_ = 0;
};

TEST(Attack, SaysWhenACertifiedPredictionWasChanged) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {12, 4}}, 1.0);
  const auto source = std::make_shared<Deceitful>(*model);
  EXPECT_ERROR(attack(*model, source, {.epsilons = {0.05}, .queries = 0}), PromiseError,
               "certified predictions were changed, the first at epsilon 0.05 on image 0");
}

TEST(Attack, ByGradientsOwesNothingToTheOtherOne) {
  const auto model = test::random_model(kMlp, 0.4);
  const auto source = test::labelled(*model, pixels());
  const AttackOptions alone{.epsilons = {0.05, 0.1, 0.3}, .restarts = 1, .steps = 3, .queries = 0};
  AttackOptions both = alone;
  both.queries = 100;
  const AttackResult first = attack(*model, source, alone);
  const AttackResult second = attack(*model, source, both);
  for (size_t e = 0; e < alone.epsilons.size(); ++e) {
    EXPECT_EQ(first.points[e].accuracy_by_gradient, second.points[e].accuracy_by_gradient);
    EXPECT_EQ(first.points[e].accuracy_by_search, 1.0);
    EXPECT_LT(second.points[e].accuracy_by_search, 1.0);
  }
}

TEST(Attack, WorksInManyBatchesAndForTinyEpsilon) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {12, 4}}, 1.0);
  const at::Tensor images = pixels(1000);
  const at::Tensor exact = distances(*model, images);
  const AttackResult result = attack(*model, test::labelled(*model, images),
                                     {.epsilons = {0.0005, 0.002}, .queries = 0, .box = false});
  for (size_t e = 0; e < result.points.size(); ++e) {
    const AttackPoint& point = result.points[e];
    const auto expected = exact.lt(point.epsilon).sum().item<int64_t>();
    const auto broken = result.broken[static_cast<int64_t>(e)].sum().item<int64_t>();
    EXPECT_GT(expected, 0);
    EXPECT_LE(broken, expected);
    EXPECT_GE(broken, exact.lt(0.99 * point.epsilon).sum().item<int64_t>());
    EXPECT_EQ(point.accuracy, static_cast<double>(1000 - broken) / 1000.0);
    EXPECT_LE(point.certified_accuracy, point.accuracy);
  }
}

TEST(Attack, GrowsWithEpsilonAndKeepsTheWorstImagesInsideBallAndBox) {
  const auto model = test::random_model(kMlp, 0.4);
  const at::Tensor images = pixels();
  const std::vector<double> epsilons{0.05, 0.2, 0.6};
  const AttackResult result = attack(*model, test::labelled(*model, images),
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
  const auto source = test::labelled(*model, pixels());
  const AttackOptions options{.epsilons = {0.1, 0.3}, .queries = 20};
  const AttackResult first = attack(*model, source, options);
  const AttackResult second = attack(*model, source, options);
  EXPECT_TRUE(first.broken.equal(second.broken));
  EXPECT_TRUE(first.examples.equal(second.examples));
}

// Behind standardised pixels a linear classifier with weights W·deviation has the boundaries of W in plain ones.
TEST(Attack, CountsInPlainPixelsWhereTheModelsAreStandardised) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {12, 4}}, 1.0);
  const ChannelStatistics statistics{.mean = {0.5, 0.4, 0.3}, .deviation = {0.5, 0.25, 0.125}};
  at::Tensor weight = model->params().front().tensor.detach();
  const at::Tensor plain = weight.to(at::kDouble).clone();
  at::Tensor inputs = pixels();
  for (int64_t channel = 0; channel < 3; ++channel) {
    const auto which = static_cast<size_t>(channel);
    weight.narrow(1, 4 * channel, 4).mul_(statistics.deviation.at(which));
    inputs.narrow(1, 4 * channel, 4).sub_(statistics.mean.at(which)).div_(statistics.deviation.at(which));
  }
  const AttackResult result = attack(
      *model, test::labelled(*model, inputs),
      {.epsilons = {0.05, 0.1, 0.2, 0.4, 0.8}, .queries = 0, .box = false, .standardised = statistics});
  expect_exact(result, distances(*model, inputs, plain));
}

TEST(Attack, RefusesWhatItCannotDo) {
  const auto text = test::random_model(test::small_transformer(), 0.3);
  const auto model = test::random_model(kMlp, 0.4);
  const auto source = test::labelled(*model, pixels());
  const auto with = [&](const AttackOptions& options) { attack(*model, source, options); };
  EXPECT_ERROR(attack(*text, source, {}), InputError, "must be an image classifier");
  EXPECT_ERROR(with({.epsilons = {0.5, 0.2}}), InputError,
               "epsilon must be positive and above the one before it, got 0.2");
  EXPECT_ERROR(with({.epsilons = {-1.0}}), InputError, "got -1");
  EXPECT_ERROR(with({.images = 0}), InputError, "images must be at least 1, got 0");
  EXPECT_ERROR(with({.steps = 0}), InputError, "steps must be at least 1, got 0");
}

}  // namespace
}  // namespace bridle
