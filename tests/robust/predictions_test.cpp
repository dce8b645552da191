#include "bridle/predictions.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/words.h"
#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "source_support.h"
#include "support.h"

namespace bridle {
namespace {

const MlpOptions kMlp{.layer_sizes = {12, 16, 4}, .final_scale = 2.0};

at::Tensor pixels() { return test::normal({64, 12}, 9, at::kFloat).abs().clamp_max(1.0); }

TEST(CertifiedClasses, FallWithEpsilonAndStartAtAllOfThem) {
  const auto model = test::random_model(kMlp, 0.3);
  const auto source = test::labelled(*model, pixels());
  const auto result = certify_predictions(*model, source, {.epsilons = {0.0, 0.01, 0.05, 0.2, 10.0}});
  EXPECT_EQ(result.norm, "l2");
  EXPECT_EQ(result.targets, 64);
  EXPECT_EQ(result.accuracy, 1.0);
  for (const CertifiedFunction& of : result.functions) {
    // But for margins within rounding.
    EXPECT_GT(of.shares.front().certified, of.function == "bfloat16" ? 0.3 : 0.95) << of.function;
    EXPECT_EQ(of.shares.back().certified, 0.0);
    for (size_t i = 1; i < of.shares.size(); ++i) {
      EXPECT_LE(of.shares[i].certified, of.shares[i - 1].certified);
      EXPECT_EQ(of.shares[i].certified, of.shares[i].certified_accuracy);
    }
  }
  EXPECT_GT(result.of("float32").shares[1].certified, 0.5);
  EXPECT_ERROR(result.of("float8"), InputError, "float8");
}

// One image at a time, so that each share says whether this image is certified. The attack ascends the margin to the
// likeliest other class, from many random points.
class CertifiedClassesOf : public testing::TestWithParam<ActivationKind> {};

TEST_P(CertifiedClassesOf, AreNotChangedByAnAttackInsideTheRadius) {
  MlpOptions options = kMlp;
  options.activation = GetParam();
  const auto model = test::random_model(options, 0.3);
  const at::Tensor images = pixels();
  Pass pass{.dtype = at::kFloat};
  int certified = 0;
  int attacked = 0;
  for (int64_t i = 0; i < 16; ++i) {
    for (const double epsilon : {0.02, 0.05, 0.1, 0.2}) {
      const at::Tensor image = images.narrow(0, i, 1);
      const auto source = test::labelled(*model, image);
      const bool holds = certify_predictions(*model, source, {.epsilons = {epsilon}})
                             .of("float32")
                             .shares.front()
                             .certified == 1.0;
      const int64_t label = model->forward(image, pass).argmax(1).item<int64_t>();
      bool changed = false;
      for (int64_t other = 0; other < 4; ++other) {
        at::Tensor x = image.detach().clone().requires_grad_(true);
        for (int step = 0; step < 20; ++step) {
          const at::Tensor logits = model->forward(x, pass)[0];
          const at::Tensor goal = logits[other].sub(logits[label]);
          if (goal.item<double>() > 0.0) changed = true;
          const at::Tensor slope = torch::autograd::grad({goal}, {x})[0];
          const double length = slope.norm().item<double>();
          if (length == 0.0) break;
          x = image.add(slope, epsilon / length).detach().requires_grad_(true);
        }
      }
      EXPECT_FALSE(holds && changed) << "image " << i << ", epsilon " << epsilon;
      certified += holds ? 1 : 0;
      attacked += changed ? 1 : 0;
    }
  }
  EXPECT_GT(certified, 3);
  EXPECT_GT(attacked, 1);
}

INSTANTIATE_TEST_SUITE_P(EveryActivation, CertifiedClassesOf,
                         testing::ValuesIn(all_values<ActivationKind>()));

TEST(CertifiedTokens, CountOnlyMarginsThatTheStretchCannotClose) {
  const auto model = test::random_model(test::small_transformer(), 0.3);
  const at::Tensor tokens = random_integers({6, 8}, 7, {.seed = 1, .stream = Stream::test});
  const auto source = test::labelled(*model, tokens);
  const auto result = certify_predictions(*model, source, {.epsilons = {0.0, 1e-4, 1e-3, 1e-2, 100.0}});
  EXPECT_EQ(result.norm, "rms");
  EXPECT_EQ(result.targets, 48);
  const auto& shares = result.of("exact").shares;
  EXPECT_EQ(shares.front().certified, 1.0);
  EXPECT_EQ(shares.back().certified, 0.0);
  // Whatever is certified at ε keeps its prediction under random perturbations of that size.
  Pass pass{.dtype = at::kDouble};
  const at::Tensor x = model->embed(tokens, pass).detach();
  const at::Tensor before = model->forward_from(x, pass).argmax(-1);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    at::Tensor step = test::normal(x.sizes(), seed).to(at::kDouble);
    step = step.mul(step.square().mean(-1, true).rsqrt()).mul(1e-3);
    const double kept =
        model->forward_from(x.add(step), pass).argmax(-1).eq(before).to(at::kDouble).mean().item<double>();
    EXPECT_GE(kept, shares[2].certified);
  }
}

// Windows go apart to threads, and come back in the order of the data.
TEST(CertifiedPredictionsOf, ManyWindowsAreThoseOfEachAloneWhateverTheThreads) {
  const auto model = test::random_model(test::small_transformer(), 0.3);
  const at::Tensor tokens = random_integers({37, 8}, 7, {.seed = 3, .stream = Stream::test});
  const PredictionOptions options{.epsilons = {0.0, 1e-3, 1e-2}, .order = {.batch_size = 20}};
  const int before = at::get_num_threads();
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const auto all = certify_predictions(*model, test::labelled(*model, tokens), options);
    EXPECT_EQ(all.targets, 37 * 8);
    for (const int64_t i : {0, 1, 19, 20, 36}) {
      const auto one = certify_predictions(*model, test::labelled(*model, tokens.narrow(0, i, 1)), options);
      for (const CertifiedFunction& of : one.functions)
        EXPECT_TRUE(all.of(of.function).stands.narrow(1, 8 * i, 8).equal(of.stands))
            << of.function << " " << i;
      EXPECT_TRUE(all.predicted.narrow(0, 8 * i, 8).equal(one.predicted));
    }
  }
  at::set_num_threads(before);
}

const ChannelStatistics kHalved{.mean = {0.0, 0.0, 0.0}, .deviation = {0.5, 0.5, 0.5}};

TEST(CertifiedPredictionsOf, StandardisedPixelsCountInPlainOnes) {
  const auto model = test::random_model(kMlp, 0.3);
  const auto source = test::labelled(*model, pixels());
  const auto plain = certify_predictions(*model, source, {.epsilons = {0.08}});
  const auto standardised =
      certify_predictions(*model, source, {.epsilons = {0.04}, .standardised = kHalved});
  EXPECT_EQ(plain.of("float32").shares[0].certified, standardised.of("float32").shares[0].certified);
  EXPECT_ERROR(certify_predictions(*model, source, {.epsilons = {0.1, -1.0}}), InputError,
               "must not be negative");
}

// (p − mean)/deviation in float32 errs by a unit of mean/deviation, which can be 255: more than some margins.
TEST(CertifiedPredictionsOf, StandardisedPixelsLoseWhatTheirMeansCost) {
  const auto model = test::random_model(kMlp, 0.3);
  const auto source = test::labelled(*model, pixels());
  ChannelStatistics bright = kHalved;
  double last = 1.0;
  for (const double mean : {0.0, 127.5, 12750.0, 1275000.0}) {
    bright.mean = {0.0, mean, 0.0};
    const auto shares =
        certify_predictions(*model, source, {.epsilons = {0.0}, .standardised = bright}).of("exact").shares;
    EXPECT_LE(shares[0].certified, last) << mean;
    last = shares[0].certified;
  }
  EXPECT_LT(last, 0.5);
}

}  // namespace
}  // namespace bridle
