// Models, batches, optimizers and constraints on a device that is not the CPU, against the same on the CPU. What is proved is
// proved on the CPU, and comes out the same.
#include "second_device.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <atomic>

#include "bridle/attack.h"
#include "bridle/certificate_file.h"
#include "bridle/constraint.h"
#include "bridle/predictions.h"
#include "bridle/run.h"
#include "nn_support.h"
#include "source_support.h"
#include "support.h"
#include "train/random_source.h"
#include "train/train_step.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::second_device;
using test::TemporaryData;

void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_LE(test::largest_difference(a.detach().cpu(), b.detach().cpu()), tolerance) << what;
}

std::vector<ModelOptions> models() {
  TransformerOptions plain = test::small_transformer();
  TransformerOptions biased = plain;
  biased.position_bias = biased.logit_bias = biased.learnable_scales = true;
  biased.position_bias_start = 2.0;
  TransformerOptions gpt = plain;
  gpt.positions = PositionKind::learned;
  gpt.norm = NormLayer::layer_norm;
  gpt.residual = ResidualKind::plain;
  gpt.bias = gpt.tie_embeddings = true;
  gpt.dropout = 0.25;
  gpt.initialization = Initialization::normal;
  return {plain, biased, gpt, MlpOptions{.layer_sizes = {12, 16, 4}, .activation = ActivationKind::maxmin}};
}

Batch batch_for(const Model& model) {
  const ModelShape shape = model.shape();
  if (shape.input == InputKind::vectors)
    return {test::normal({6, shape.size}, 1, at::kFloat).abs(),
            random_integers({6}, static_cast<uint64_t>(shape.outputs), {})};
  const auto tokens = static_cast<uint64_t>(shape.outputs);
  const std::vector<int64_t> sizes{3, shape.longest};
  return {random_integers(sizes, tokens, {}), random_integers(sizes, tokens, {.seed = 1})};
}

TEST(SecondDevice, RefusesOperandsOfBothDevices) {
  const at::Tensor there = test::normal({2, 2}, 1).to(second_device());
  EXPECT_ANY_THROW(there.add(test::normal({2, 2}, 1)));
  EXPECT_ANY_THROW(there.index_select(0, random_integers({2}, 2, {})));
}

TEST(SecondDevice, GetsTheSameInitialWeights) {
  for (const ModelOptions& options : models()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const auto here = make_model(options, 5, dtype);
      const auto there = make_model(options, 5, at::device(second_device()).dtype(dtype));
      EXPECT_EQ(here->device(), at::Device(at::kCPU));
      EXPECT_EQ(there->device(), second_device());
      ASSERT_EQ(here->params().size(), there->params().size());
      for (size_t i = 0; i < here->params().size(); ++i) {
        const Param& param = there->params()[i];
        EXPECT_EQ(param.tensor.device(), second_device()) << param.name;
        EXPECT_TRUE(param.tensor.requires_grad() && param.tensor.is_leaf()) << param.name;
        EXPECT_EQ(param.tensor.scalar_type(), dtype);
        EXPECT_TRUE(param.tensor.detach().cpu().equal(here->params()[i].tensor.detach())) << param.name;
      }
    }
  }
}

TEST(SecondDevice, ComputesTheSameLossAndGradients) {
  for (const ModelOptions& options : models()) {
    const auto here = test::random_model(options);
    const auto there = copy_to(*here, second_device());
    const Batch batch = batch_for(*here);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const double tolerance = dtype == at::kFloat ? 1e-5 : 0.05;
      Pass first{.dtype = dtype, .training = true, .margin = 0.1}, second = first;
      const LossAndGradients a = loss_and_gradients(*here, batch, first);
      const LossAndGradients b = loss_and_gradients(*there, batch, second);
      EXPECT_NEAR(a.loss, b.loss, tolerance * std::abs(a.loss));
      for (size_t i = 0; i < a.gradients.size(); ++i) {
        EXPECT_EQ(b.gradients[i].device(), second_device());
        const double size = a.gradients[i].abs().max().item<double>() + (dtype == at::kFloat ? 1e-3 : 0.02);
        expect_near(a.gradients[i], b.gradients[i], tolerance * size, here->params()[i].name);
      }
    }
  }
}

TEST(SecondDevice, HasEveryConstraint) {
  for (const std::string& method : constraint_names()) {
    for (const int64_t blocks : {1, 2}) {
      const auto constrained = [&](at::Device device) {
        const Param w{
            .name = "w", .tensor = test::normal({12, 8}, 1, at::kFloat).to(device), .blocks = blocks};
        Enforcer enforcer(w, {.method = method}, 0.7);
        enforcer.start_();
        for (int i = 0; i < 3; ++i) {
          w.tensor.add_(test::normal({12, 8}, 2, at::kFloat).to(device), 0.01);
          enforcer.enforce_({.learning_rate = 0.05, .update_bound = 1.0});
        }
        EXPECT_EQ(enforcer.constraint().state().defined() ? enforcer.constraint().state().device() : device,
                  device);
        if (enforcer.constraint().uses_cap()) {
          enforcer.prove_and_repair_();
          EXPECT_TRUE(prove_norm(w, 0.7));
        }
        EXPECT_EQ(w.tensor.device(), device);
        return w;
      };
      const Param here = constrained(at::kCPU), there = constrained(second_device());
      expect_near(here.tensor, there.tensor, 1e-4, method);
      EXPECT_NEAR(norm_bound(here)->to_double(), norm_bound(there)->to_double(), 1e-4) << method;
    }
  }
}

// ---- Training

struct Recipe {
  OptimizerMethod optimizer;
  const char* constraint;
  double lr;
};
constexpr Recipe kRecipes[] = {{OptimizerMethod::muon, "soft_cap", 0.3},
                               {OptimizerMethod::adamw, "normalize", 0.01}};

RunOptions with_recipe(RunOptions options, const Recipe& recipe, at::Device device) {
  options.optimizer.method = recipe.optimizer;
  options.optimizer.lr = recipe.lr;
  options.constraint.options.method = recipe.constraint;
  options.device = device;
  return options;
}

RunOptions small_mlp() {
  RunOptions options;
  options.data.batch_size = 16;
  options.data.mirror = true;
  options.data.shift = 2;
  options.model.kind = ModelKind::mlp;
  options.model.mlp.hidden_sizes = {24, 16};
  options.constraint.prove_every = 2;
  return options;
}

TEST(SecondDevice, TrainsAnMlpToTheSameWeights) {
  for (const Recipe& recipe : kRecipes) {
    const auto trained = [&](at::Device device) {
      const RunOptions recipe_options = with_recipe(small_mlp(), recipe, device);
      const RunOptions options = resolved(recipe_options, random_data_set(recipe_options));
      TrainState state = make_train_state(options, make_recipe_model(options), random_source(options));
      state.constraints->start_();
      for (int i = 0; i < 5; ++i) train_step_(state);
      state.constraints->prove_and_repair_();
      for (const auto& [name, tensor] : state.optimizer->state()) EXPECT_EQ(tensor.device(), device) << name;
      return std::move(state.model);
    };
    const auto here = trained(at::kCPU), there = trained(second_device());
    for (size_t i = 0; i < here->params().size(); ++i) {
      EXPECT_EQ(there->params()[i].tensor.device(), second_device());
      expect_near(here->params()[i].tensor, there->params()[i].tensor, 2e-4, here->params()[i].name);
    }
    EXPECT_NEAR(certify(*here).lipschitz.value, certify(*there).lipschitz.value, 1e-3);
  }
}

// Trained, evaluated, saved and certified there; interrupted, and gone on with on either device.
TEST(SecondDevice, TrainsATransformerThatGoesOnAnywhere) {
  for (const Recipe& recipe : kRecipes) {
    const TemporaryData data;
    test::import_words(data, 4000);
    RunOptions small = test::small_run();
    small.model.transformer.num_hidden_layers = 1;
    small.training.steps = 6;
    small.training.evaluate_every = small.training.checkpoint_every = 3;
    small.constraint.prove_every = 2;
    const RunOptions here = with_recipe(small, recipe, at::kCPU);
    const RunOptions there = with_recipe(small, recipe, second_device());
    const TrainSummary expected = Trainer(here, data / "here").run();
    std::atomic<bool> stop = false;
    const TrainListener after_three{.progress = [&](const TrainProgress& p) { stop = p.step == 3; }};
    for (const auto& [name, rest] : {std::pair{"on", there}, std::pair{"back", here}}) {
      stop = false;
      EXPECT_FALSE(Trainer(there, data / name, after_three).run(&stop).finished);
      const auto resumed = Trainer::resume(data / name, {}, rest);
      EXPECT_EQ(resumed->model().device(), rest.device);
      const TrainSummary summary = resumed->run();
      ASSERT_TRUE(summary.finished && summary.bound);
      EXPECT_NEAR(summary.validation_loss, expected.validation_loss, 1e-4);
      EXPECT_NEAR(summary.bound->lipschitz.value, expected.bound->lipschitz.value, 1e-2);
      EXPECT_TRUE(check_certificate(data / name / "certificate.json", data / name).loose.empty());
      EXPECT_EQ(certify(resumed->model()).lipschitz.value,
                certify(*read_model(data / name).model).lipschitz.value);
    }
    EXPECT_EQ(read_file(data / "here/config.toml"), read_file(data / "on/config.toml"));
  }
}

TEST(SecondDevice, KeepsABudgetInBfloat16) {
  const TemporaryData data;
  test::import_words(data, 4000);
  RunOptions options = test::small_run();
  options.training.steps = 4;
  options.training.precision = Precision::bfloat16;
  options.constraint.lipschitz = 40.0;
  options.device = second_device();
  const TrainSummary summary = Trainer(options, data / "run").run();
  ASSERT_TRUE(summary.bound);
  EXPECT_LE(summary.bound->lipschitz.value, 40.0);
  EXPECT_LE(check_certificate(data / "run/certificate.json", data / "run").certificate.bound.lipschitz.value,
            40.0);
}

// ---- What is done with a trained model

TEST(SecondDevice, EvaluatesAndSamplesTheSame) {
  const TemporaryData data;
  const auto here = test::short_run(data);
  const auto there = open_run(data / "run", second_device());
  EXPECT_EQ(there.model->device(), second_device());
  const auto split = open_run_split(here, Split::validation);
  const EvaluationResult a = evaluate(*here.model, split, {.statistics = true});
  const EvaluationResult b = evaluate(*there.model, split, {.statistics = true});
  EXPECT_NEAR(a.loss, b.loss, 1e-6);
  EXPECT_EQ(a.statistics.layers.size(), b.statistics.layers.size());
  EXPECT_EQ(sample(here, {.tokens = 40}), sample(there, {.tokens = 40}));
  EXPECT_EQ(sample(here, {.tokens = 10, .temperature = 0.0}),
            sample(there, {.tokens = 10, .temperature = 0.0}));
}

TEST(SecondDevice, IsCertifiedAsOnTheCpu) {
  for (const ModelOptions& options : models()) {
    const auto here = test::random_model(options);
    const auto there = copy_to(*here, second_device());
    const CertifiedBound a = certify(*here, 0.1), b = certify(*there, 0.1);
    EXPECT_EQ(a.lipschitz.value, b.lipschitz.value);
    EXPECT_TRUE(check_bound(*there, a).empty());
    const SearchOptions search{.domain = a.domain_radius, .starts = 2, .rounds = 6};
    EXPECT_EQ(search_stretch(*here, search).lipschitz, search_stretch(*there, search).lipschitz);
    const std::vector<at::Tensor> inputs{batch_for(*here).inputs};
    EXPECT_EQ(certify_near(*here, neighbourhood_of(*here, inputs, 0.1)).lipschitz.value,
              certify_near(*there, neighbourhood_of(*there, inputs, 0.1)).lipschitz.value);
    const auto one = std::make_shared<test::FixedSource>(batch_for(*here).inputs, batch_for(*here).targets);
    EXPECT_TRUE(certify_predictions(*here, one, {})
                    .of("exact")
                    .stands.equal(certify_predictions(*there, one, {}).of("exact").stands));
  }
}

TEST(SecondDevice, IsAttacked) {
  const auto here = test::random_model(MlpOptions{.layer_sizes = {12, 16, 4}, .final_scale = 2.0}, 0.4);
  const auto there = copy_to(*here, second_device());
  const auto source =
      test::labelled(*here, test::normal({32, 12}, 9, at::kFloat).abs().mul(0.3).clamp_max(1.0));
  const ChannelStatistics plain{.mean = {0.0, 0.0, 0.0}, .deviation = {1.0, 1.0, 1.0}};
  const AttackOptions options{.epsilons = {0.1, 0.3}, .steps = 10, .queries = 10, .standardised = plain};
  const AttackResult a = attack(*here, source, options), b = attack(*there, source, options);
  EXPECT_TRUE(a.broken.equal(b.broken));
  expect_near(a.examples, b.examples, 1e-3, "examples");
  EXPECT_TRUE(b.examples.is_cpu());
}

}  // namespace
}  // namespace bridle
