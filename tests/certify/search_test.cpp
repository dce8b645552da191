#include "bridle/certify.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

void randomize_(const Model& model, double deviation) {
  const at::NoGradGuard no_gradients;
  uint64_t seed = 40;
  for (const Param& param : model.params())
    param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(deviation));
}

std::unique_ptr<Model> random_model(const ModelOptions& options) {
  auto model = make_model(options, 1);
  randomize_(*model, 0.3);
  return model;
}

MlpOptions mlp(std::vector<int64_t> sizes) { return {.layer_sizes = std::move(sizes)}; }

std::vector<ModelOptions> all_kinds() {
  TransformerOptions gpt = test::small_transformer();
  gpt.positions = PositionKind::learned;
  gpt.norm = NormLayer::layer_norm;
  gpt.residual = ResidualKind::plain;
  gpt.bias = gpt.tie_embeddings = true;
  TransformerOptions biased = test::small_transformer();
  biased.position_bias = biased.logit_bias = biased.learnable_scales = true;
  biased.norm = NormLayer::tanh;
  biased.positions = PositionKind::none;
  TransformerOptions padded = test::small_transformer();
  padded.real_vocab_size = 7;
  padded.norm = NormLayer::rms_norm;
  TransformerOptions grouped = test::small_transformer();
  grouped.num_key_value_heads = 2;
  MlpOptions sorting = mlp({12, 8, 5});
  sorting.activation = ActivationKind::maxmin;
  return {test::small_transformer(), gpt, biased, padded, grouped, mlp({12, 9, 5}), sorting};
}

TEST(SearchStretch, FindsTheNormOfALinearMap) {
  const auto model = random_model(mlp({12, 7}));
  const at::Tensor weight = model->params().front().tensor;
  const ObservedStretch found = search_stretch(*model, {});
  const double norm = test::spectral_norm(weight) * std::sqrt(12.0 / 7.0);
  EXPECT_NEAR(found.lipschitz, norm, 1e-6 * norm);
  const double row = weight.detach().to(at::kDouble).square().sum(1).max().sqrt().item<double>();
  EXPECT_NEAR(found.largest_logit, row * std::sqrt(12.0), 1e-6 * row);
}

TEST(SearchStretch, ReportsTheRatioOfInputsInsideTheDomain) {
  for (const ModelOptions& options : all_kinds()) {
    const auto model = random_model(options);
    const double domain = 1.7;
    const ObservedStretch found =
        search_stretch(*model, {.domain = domain, .sequence_length = 5, .rounds = 12});
    Pass pass{.dtype = at::kDouble};
    const at::NoGradGuard no_gradients;
    const auto change = [&](const at::Tensor& a, const at::Tensor& b) {
      EXPECT_LE(test::largest_rms(a), domain);
      EXPECT_LE(test::largest_rms(b), domain);
      return model->forward_from(a, pass).sub(model->forward_from(b, pass)).div(test::largest_rms(a.sub(b)));
    };
    // The difference of the outputs is small, so float64 knows it to some digits only; the result is below all of them.
    const auto expect_just_below = [](double reported, double seen) {
      EXPECT_LE(reported, seen * (1.0 + 1e-12));
      EXPECT_GE(reported, seen * (1.0 - 1e-5));
    };
    expect_just_below(found.lipschitz, test::largest_rms(change(found.first, found.second)));
    expect_just_below(found.largest_logit,
                      change(found.logit_first, found.logit_second).abs().max().item<double>());
    EXPECT_GT(found.lipschitz, 0.0);
  }
}

// The network is x ↦ wx, whose Lipschitz constant is w itself.
TEST(SearchStretch, IsNeverAboveTheTruth) {
  const at::NoGradGuard no_gradients;
  for (const double w : {3.0, 0.1, 7e-9, 1.5e30}) {
    const auto model = make_model(MlpOptions{.layer_sizes = {1, 1}}, 1);
    model->params().front().tensor.fill_(w);
    const double exact = model->params().front().tensor.item<double>();
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const ObservedStretch found = search_stretch(*model, {.domain = 1.3, .rounds = 8, .seed = seed});
      EXPECT_LE(found.lipschitz, exact);
      EXPECT_LE(found.largest_logit, exact);
      EXPECT_GT(found.lipschitz, exact * (1.0 - 1e-6));
    }
  }
}

TEST(SearchStretch, StaysBelowTheBoundsOfEveryKindOfModel) {
  for (const ModelOptions& options : all_kinds()) {
    const auto model = random_model(options);
    const ObservedStretch found = search_stretch(*model, {.sequence_length = 6, .rounds = 30});
    const auto norms = measured_norms();
    Walk walk(*norms);
    EXPECT_LE(found.lipschitz, model->bound(1.0, walk).lipschitz.to_double());
    EXPECT_LE(found.largest_logit, walk.largest_logit.to_double());
    EXPECT_GE(found.largest_logit, found.lipschitz);  // an entry of the widest token is at least its RMS
  }
}

TEST(SearchStretch, FindsNothingInAConstantModel) {
  const auto transformer = make_model(test::small_transformer(), std::nullopt);
  const auto layers = make_model(mlp({4, 3, 2}), std::nullopt);
  for (const Model* model : {transformer.get(), layers.get()}) {
    const ObservedStretch found = search_stretch(*model, {.domain = 1.7, .rounds = 6});
    EXPECT_EQ(found.lipschitz, 0.0);
    EXPECT_EQ(found.largest_logit, 0.0);
    for (const at::Tensor& input : {found.first, found.second, found.logit_first, found.logit_second})
      EXPECT_LE(test::largest_rms(input), 1.7);
  }
}

TEST(SearchStretch, DependsOnTheSeedAlone) {
  const auto model = random_model(test::small_transformer());
  const SearchOptions options{.rounds = 10, .seed = 5};
  const ObservedStretch a = search_stretch(*model, options);
  const ObservedStretch b = search_stretch(*model, options);
  EXPECT_EQ(a.lipschitz, b.lipschitz);
  EXPECT_EQ(a.largest_logit, b.largest_logit);
  EXPECT_TRUE(a.first.equal(b.first));
  EXPECT_NE(search_stretch(*model, {.rounds = 10, .seed = 6}).lipschitz, a.lipschitz);
}

// One neuron with weights 1: its slope is κ at √2, which is inside the ball, so the network stretches by
// (1 − α) + α·κ/1.1289 where nothing else moves the token.
TEST(SearchStretch, FindsWhereGeluIsSteepest) {
  for (const auto& [act, kappa] : {std::pair{ActivationKind::gelu, 1.128904145186},
                                   std::pair{ActivationKind::gelu_tanh, 1.128993068659}}) {
    TransformerOptions options = test::small_transformer();
    options.activation = act;
    options.num_hidden_layers = 1;
    options.vocab_size = options.hidden_size;
    const auto model = make_model(options, std::nullopt);
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params()) {
      if (param.role == Role::mlp_up || param.role == Role::mlp_down) param.tensor[0][0] = 1.0;
      if (param.role == Role::head) param.tensor.fill_diagonal_(1.0);
    }
    const ObservedStretch found = search_stretch(*model, {.sequence_length = 3});
    // Attention is zero, so that α = 1/2 leaves half of the token, and half of that goes through the neuron.
    EXPECT_NEAR(found.lipschitz, 0.5 * (0.5 + 0.5 * kappa / 1.1289), 1e-7);
  }
}

TEST(SearchStretch, LeavesTheModelAsItWas) {
  const auto model = random_model(test::small_transformer());
  std::vector<at::Tensor> before;
  for (const Param& param : model->params()) before.push_back(param.tensor.detach().clone());
  search_stretch(*model, {.rounds = 6});
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(model->params()[i].tensor.detach().equal(before[i]));
    EXPECT_TRUE(model->params()[i].tensor.requires_grad());
    EXPECT_FALSE(model->params()[i].tensor.grad().defined());
  }
}

TEST(SearchStretch, TellsHowFarItIs) {
  const auto model = random_model(mlp({4, 3}));
  std::vector<int64_t> done;
  int64_t total = 0;
  search_stretch(*model, {.rounds = 9, .on_progress = [&](const Progress& progress) {
                            done.push_back(progress.done);
                            total = progress.total;
                          }});
  ASSERT_EQ(done.size(), 12U);
  EXPECT_EQ(done.back(), total);
}

TEST(SearchStretch, RefusesWhatMakesNoSense) {
  const auto model = random_model(mlp({4, 3}));
  EXPECT_THROW(search_stretch(*model, {.domain = 0.0}), InputError);
  EXPECT_THROW(search_stretch(*model, {.domain = std::numeric_limits<double>::quiet_NaN()}), InputError);
  EXPECT_THROW(search_stretch(*model, {.sequence_length = 0}), InputError);
  EXPECT_THROW(search_stretch(*model, {.starts = 0}), InputError);
  EXPECT_THROW(search_stretch(*model, {.rounds = -1}), InputError);
  const at::NoGradGuard no_gradients;
  model->params().front().tensor[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(search_stretch(*model, {}), NumericError);
}

}  // namespace
}  // namespace bridle
