#include "train/records.h"

#include <cmath>

#include "train/random_source.h"
#include "train_support.h"

namespace bridle {
namespace {

std::vector<std::string> names(const MetricRecord& record) {
  std::vector<std::string> all;
  for (const Metric& metric : record.metrics) all.push_back(metric.name);
  return all;
}

TrainState state_of(RunOptions options) {
  options = resolved(options, random_data_set(options));
  TrainState state = make_train_state(options, make_recipe_model(options), random_source(options));
  state.constraints->start_();
  return state;
}

TEST(Records, OfAStepHoldWhatMetricsShow) {
  TrainState state = state_of(test::small_run());
  state.step = 7;
  const MetricRecord record = step_record(state, {.loss = 2.5, .accuracy = 0.25, .learning_rate = 0.1},
                                          {.rate = 123.4, .seconds = 1.23456});
  EXPECT_EQ(record.step, 7);
  EXPECT_EQ(names(record), (std::vector<std::string>{"loss", "accuracy", "learning_rate", "repairs", "norms",
                                                     "tokens_per_second", "seconds"}));
  EXPECT_EQ(std::get<double>(record.find("tokens_per_second")->value), 123.0);
  EXPECT_EQ(std::get<double>(record.find("seconds")->value), 1.235);
  const auto& norms = std::get<Metric::PerWeight>(record.find("norms")->value);
  EXPECT_EQ(norms.size(), 13U);  // six matrices in each of two blocks, and the head
  for (const auto& [name, norm] : norms) EXPECT_LE(norm, 2.0) << name;
  EXPECT_EQ(record.find("caps"), nullptr);
}

TEST(Records, HoldActivationsWhereTheyWereMeasured) {
  TrainState state = state_of(test::small_run());
  ActivationStatistics seen;
  seen.include("lm_head", {.largest_rms = 2.0, .largest_entry = 5.0});
  const MetricRecord step = step_record(state, {.activations = seen}, {});
  const MetricRecord evaluation = evaluation_record(3, {.statistics = seen}, std::nullopt);
  for (const MetricRecord& record : {step, evaluation}) {
    const auto of = [&](const char* key) { return std::get<Metric::PerWeight>(record.find(key)->value); };
    EXPECT_EQ(of("largest_rms"), (Metric::PerWeight{{"lm_head", 2.0}}));
    EXPECT_EQ(of("largest_entry"), (Metric::PerWeight{{"lm_head", 5.0}}));
  }
  EXPECT_EQ(evaluation_record(3, {}, std::nullopt).find("largest_rms"), nullptr);
}

// Of steps whose metrics are written, and of no others: the fused pass measures them on its way.
TEST(Records, AreGivenActivationsByTheStepsThatAreLogged) {
  RunOptions options = test::small_run();
  options.training.log_activations = true;
  options.training.log_every = 2;
  TrainState state = state_of(options);
  EXPECT_TRUE(train_step_(state)->activations.layers.empty());
  const auto layers = train_step_(state)->activations.layers;
  EXPECT_EQ(layers.size(), 6U);  // the embedding, two of each block, the logits
  for (const auto& [name, layer] : layers) EXPECT_GT(layer.largest_entry, 0.0) << name;
}

// Training sees what windows have grown to at its step, and an evaluation after it as well.
TEST(WindowShare, GrowsWithTheStepsWhereAsked) {
  RunOptions options = test::small_run();
  options.training.steps = 8;
  EXPECT_EQ(window_share(options.training, 2), 1.0);
  options.training.grow_windows = true;
  EXPECT_EQ(window_share(options.training, 0), 0.0);
  EXPECT_EQ(window_share(options.training, 2), 0.25);
  EXPECT_EQ(window_share(options.training, 8), 1.0);
  options.model.transformer.attention_window = 8;
  TrainState state = state_of(options);
  EXPECT_EQ(state.pass().window_share, 0.0);
  train_step_(state);
  EXPECT_EQ(state.pass().window_share, 0.125);
}

TEST(Records, OfAStepUnderABudgetHoldItsCaps) {
  RunOptions options = test::small_run();
  options.constraint.lipschitz = 5.0;
  const TrainState state = state_of(options);
  const MetricRecord record = step_record(state, {}, {});
  EXPECT_EQ(std::get<Metric::PerWeight>(record.find("caps")->value).size(), 13U);
  EXPECT_LE(std::get<double>(record.find("bound_of_caps")->value), 5.0);
}

TEST(Records, OfAnEvaluationHoldTheBoundOrNone) {
  const EvaluationResult result{.loss = 1.5, .accuracy = 0.5, .targets = 64};
  const std::optional<CertifiedBound> bound =
      CertifiedBound{.lipschitz = {2.0, 0.30103}, .layers = {{"lm_head", {3.0, 0.4772}, {2.0, 0.30103}}}};
  const MetricRecord record = evaluation_record(9, result, bound);
  EXPECT_EQ(names(record), (std::vector<std::string>{"validation_loss", "validation_accuracy", "targets",
                                                     "lipschitz", "log10_lipschitz", "activation"}));
  EXPECT_EQ(std::get<int64_t>(record.find("targets")->value), 64);
  EXPECT_EQ(std::get<double>(record.find("activation")->value), 3.0);
  const MetricRecord none = evaluation_record(9, result, std::nullopt);
  for (const char* name : {"lipschitz", "log10_lipschitz", "activation"})
    EXPECT_FALSE(std::isfinite(std::get<double>(none.find(name)->value))) << name;
}

}  // namespace
}  // namespace bridle
