#include "train/tensorboard_sink.h"

#include <algorithm>
#include <map>

#include "bridle/error.h"
#include "event_support.h"
#include "train_support.h"

namespace bridle {
namespace {

using nlohmann::json;

RunOptions small_run_with_events() {
  RunOptions options = test::small_run();
  options.training.steps = 4;
  options.training.log_every = 1;
  options.training.evaluate_every = 2;
  options.training.checkpoint_every = 2;
  options.training.sinks = {SinkKind::jsonl, SinkKind::tensorboard};
  return options;
}

// The last value of every tag.
std::map<std::string, json> by_tag(const std::vector<json>& events) {
  std::map<std::string, json> values;
  for (const json& event : events)
    if (event.contains("values"))
      for (const json& value : event["values"]) values[value["tag"]] = value;
  return values;
}

TEST(TensorBoardSink, WritesWhatMetricsHoldAndSingularValuesAndText) {
  const test::TemporaryData data;
  test::import_words(data);
  const TrainSummary summary = Trainer(small_run_with_events(), data / "run").run();
  const std::map<std::string, json> values = by_tag(test::read_events(data / "run/tensorboard"));
  EXPECT_NEAR(values.at("validation_loss")["scalar"].get<double>(), summary.validation_loss, 1e-6);
  for (const char* tag : {"loss", "accuracy", "learning_rate", "tokens_per_second", "lipschitz"})
    EXPECT_TRUE(values.contains(tag)) << tag;
  const json histogram = values.at("singular_values/lm_head.weight")["histogram"];
  EXPECT_EQ(histogram["num"], 20.0);  // characters, fewer than channels
  EXPECT_NEAR(histogram["max"].get<double>(), values.at("norms/lm_head.weight")["scalar"].get<double>(),
              1e-3);
  EXPECT_EQ(std::count_if(values.begin(), values.end(),
                          [](const auto& entry) { return entry.first.starts_with("singular_values/"); }),
            13);
  EXPECT_GT(values.at("sample")["text"].get<std::string>().size(), 200U);
}

TEST(TensorBoardSink, GivesAResumedRunAFileThatVoidsWhatComesAgain) {
  const test::TemporaryData data;
  test::import_words(data);
  std::atomic<bool> stop = false;
  const TrainListener listener{
      .progress = [&stop](const auto& progress) { stop = progress.step == 3; }, .note = {}, .sinks = {}};
  Trainer(small_run_with_events(), data / "run", listener).run(&stop);
  Trainer::resume(data / "run")->run();
  const std::vector<json> events = test::read_events(data / "run/tensorboard");
  const auto restart =
      std::find_if(events.begin(), events.end(), [](const json& event) { return event.contains("session"); });
  ASSERT_NE(restart, events.end());
  EXPECT_EQ((*restart)["step"], 4);
  EXPECT_EQ(events.back()["step"], 4);
}

TEST(TensorBoardSink, IsAskedForByTheRecipe) {
  const test::TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run_with_events();
  options.training.sinks = {SinkKind::jsonl};
  Trainer(options, data / "run").run();
  EXPECT_FALSE(std::filesystem::exists(data / "run/tensorboard"));
  options.training.sinks = {SinkKind::tensorboard};
  EXPECT_ERROR(Trainer(options, data / "other"), InputError, "training.sinks must hold");
}

}  // namespace
}  // namespace bridle
