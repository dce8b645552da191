#include "train/training_run.h"

#include "bridle/error.h"
#include "file_support.h"
#include "io/certificate_file.h"
#include "own_model.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

// The last metrics, the summary and the certificate are of one evaluation and one certification.
TEST(TrainingRun, EvaluatesAndCertifiesOnceAtTheEnd) {
  const TemporaryFolder folder;
  TrainerParts parts = test::own_parts();
  const auto validation = std::make_shared<test::QuarterSource>(64, 101);
  parts.validation = validation;
  const auto* model = dynamic_cast<const test::SineNetwork*>(parts.model.get());
  const auto sink = std::make_shared<test::MemorySink>();
  RunOptions options = test::own_run();
  options.training.evaluate_every = options.training.checkpoint_every = 0;
  Trainer trainer(options, std::move(parts), folder / "run", {.sinks = {sink}});
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(validation->examples_read, summary.sealed ? 128 : 64);
  EXPECT_EQ(model->bounds, 1);
  ASSERT_TRUE(summary.bound);
  const MetricRecord& last = sink->records.back();
  EXPECT_EQ(last.step, 20);
  EXPECT_EQ(std::get<double>(last.find("validation_loss")->value), summary.validation_loss);
  EXPECT_EQ(std::get<double>(last.find("lipschitz")->value), summary.bound->lipschitz.value);
  EXPECT_EQ(std::get<double>(last.find("activation")->value), summary.bound->layers.back().activation.value);
}

TEST(TrainingRun, StatesTheCertificatesBoundEverywhere) {
  const test::TemporaryData data;
  test::import_words(data);
  const auto sink = std::make_shared<test::MemorySink>();
  const TrainSummary summary =
      Trainer(test::small_run(), data / "run", {.progress = {}, .note = {}, .sinks = {sink}}).run();
  const double stated = read_certificate(data / "run/certificate.json").bound.lipschitz.value;
  ASSERT_TRUE(summary.bound);
  EXPECT_EQ(summary.bound->lipschitz.value, stated);
  EXPECT_EQ(std::get<double>(sink->records.back().find("lipschitz")->value), stated);
  EXPECT_TRUE(check_certificate(data / "run/certificate.json", data / "run").loose.empty());
}

TEST(TrainingRun, GivesEverySinkWhatMetricsHold) {
  const TemporaryFolder folder;
  const auto sink = std::make_shared<test::MemorySink>();
  const TrainListener listener{.progress = {}, .note = {}, .sinks = {sink}};
  Trainer(test::own_run(), test::own_parts(), folder / "run", listener).run();
  std::vector<int64_t> steps;
  for (const MetricRecord& record : sink->records) steps.push_back(record.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{5, 10, 10, 15, 20, 20}));
  EXPECT_EQ(sink->syncs, 2);
  {
    JsonLines again(folder / "again", 0);
    for (const MetricRecord& record : sink->records) again.write(record);
  }
  EXPECT_EQ(read_file(folder / "again"), read_file(folder / "run/metrics.jsonl"));
}

TEST(TrainingRun, TellsSinksWhereItGoesOn) {
  const TemporaryFolder folder;
  const auto sink = std::make_shared<test::MemorySink>();
  std::atomic<bool> stop{false};
  const TrainListener stops{.progress = [&](const TrainProgress& p) { stop = p.step == 13; }};
  Trainer(test::own_run(), test::own_parts(), folder / "run", stops).run(&stop);
  Trainer::resume(folder / "run", test::own_parts(), {.progress = {}, .note = {}, .sinks = {sink}})->run();
  EXPECT_EQ(sink->resumed, std::vector<int64_t>{13});
  ASSERT_EQ(sink->records.size(), 3U);  // steps 15 and 20, and the last evaluation
  EXPECT_EQ(sink->records.front().step, 15);
}

TEST(TrainingRun, SaysOnceThatThereIsNoBound) {
  const test::TemporaryData data;
  test::import_words(data);
  RunOptions options = test::small_run();
  options.model.transformer.norm = NormLayer::layer_norm;
  options.model.transformer.norm_epsilon = 0.0;
  options.training.evaluate_every = 5;
  options.training.precision = Precision::bfloat16;
  std::vector<std::string> notes;
  const TrainListener listener{.progress = {},
                               .note = [&](const std::string& text) { notes.push_back(text); }};
  const TrainSummary summary = Trainer(options, data / "run", listener).run();
  EXPECT_FALSE(summary.bound);
  EXPECT_FALSE(std::filesystem::exists(data / "run/certificate.json"));
  EXPECT_EQ(std::count_if(notes.begin(), notes.end(),
                          [](const std::string& text) { return text.find("no finite bound") != text.npos; }),
            1);
}

}  // namespace
}  // namespace bridle
