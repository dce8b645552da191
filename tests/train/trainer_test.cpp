#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/words.h"
#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "io/certificate_file.h"
#include "io/model_folder.h"
#include "train/checkpoint.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::entries;
using test::small_run;
using test::TemporaryData;

std::vector<nlohmann::json> metrics(const std::filesystem::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
    for (const char* clock : {"seconds", "tokens_per_second"}) lines.back().erase(clock);
  }
  return lines;
}

void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_TRUE(read_file(a / "model.safetensors") == read_file(b / "model.safetensors"));
  EXPECT_TRUE(read_file(a / "state/step_00000020/state.safetensors") ==
              read_file(b / "state/step_00000020/state.safetensors"));
  EXPECT_EQ(metrics(a), metrics(b));
}

TEST(Trainer, LeavesARunThatCanBeRead) {
  const TemporaryData data;
  test::import_words(data);
  const TrainSummary summary = Trainer(small_run(), data / "run").run();
  ASSERT_TRUE(summary.finished && summary.bound);
  EXPECT_GT(summary.bound->lipschitz.value, 0.0);
  EXPECT_EQ(entries(data / "run"),
            (std::vector<std::string>{"certificate.json", "config.json", "config.toml", "metrics.jsonl",
                                      "model.safetensors", "state", "vocab.json"}));
  EXPECT_EQ(entries(data / "run/state"),
            (std::vector<std::string>{".lock", "step_00000015", "step_00000020"}));
  const auto run = open_run(data / "run");
  const EvaluationResult result =
      evaluate(*run.model, open_run_split(run, Split::validation), {.order = {.batch_size = 8}});
  EXPECT_EQ(result.loss, summary.validation_loss);
  const auto lines = metrics(data / "run");
  ASSERT_EQ(lines.size(), 6U);  // steps 5, 10, 15, 20, and two evaluations
  EXPECT_LT(lines[4]["loss"].get<double>(), lines[0]["loss"].get<double>());
  for (const auto& [name, norm] : lines[4]["norms"].items()) EXPECT_LE(norm.get<double>(), 2.0) << name;
}

TEST(Trainer, SaysNothingOfRunsThatAreFused) {
  const TemporaryData data;
  test::import_words(data);
  int runs = 0;
  const auto notes = [&](const std::function<void(RunOptions&)>& change) {
    RunOptions options = small_run();
    options.training.steps = 1;
    options.training.precision = Precision::bfloat16;
    change(options);
    std::vector<std::string> said;
    const TrainListener listener{.note = [&](const std::string& text) { said.push_back(text); }};
    Trainer(options, data / fmt::format("run_{}", ++runs), listener).run();
    return said;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes([](RunOptions&) {}), Notes{});
  EXPECT_EQ(notes([](RunOptions& o) { o.model.transformer.norm = NormLayer::rms_norm; }), Notes{});
  EXPECT_EQ(notes([](RunOptions& o) { o.model.transformer.dropout = 0.1; }), Notes{});
  EXPECT_EQ(notes([](RunOptions& o) { o.model.transformer.num_key_value_heads = 2; }), Notes{});
  EXPECT_EQ(notes([](RunOptions& o) { o.training.precision = Precision::float32; }), Notes{});
}

TEST(Trainer, ResumesBitForBit) {
  const TemporaryData data;
  test::import_words(data);
  for (const Precision precision : all_values<Precision>()) {
    RunOptions options = small_run();
    options.training.precision = precision;
    options.training.accumulate = 2;
    options.data.token_noise = 0.1;
    options.model.transformer.dropout = 0.1;
    // The first keeps vectors of power iteration between steps, the second what was outside.
    options.constraint.options.method = precision == Precision::float32 ? "hammer" : "normalize";
    const auto whole = data / (std::string("whole_") + word(precision));
    const auto parts = data / (std::string("parts_") + word(precision));
    Trainer(options, whole).run();
    std::atomic<bool> stop{false};
    const TrainListener listener{[&stop](const TrainProgress& progress) { stop = progress.step == 13; }, {}};
    const TrainSummary stopped = Trainer(options, parts, listener).run(&stop);
    EXPECT_FALSE(stopped.finished);
    EXPECT_EQ(stopped.step, 13);
    EXPECT_TRUE(Trainer::resume(parts)->run().finished);
    expect_same_run(whole, parts);
  }
}

TEST(Trainer, KeepsABudgetAtEveryStepAndResumesBitForBit) {
  const TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run();
  options.constraint.lipschitz = 5.0;
  options.training.log_every = 1;
  const auto whole = data / "whole";
  Trainer first(options, whole);
  EXPECT_EQ(first.options().constraint.heads, HeadBlocks::kv);
  EXPECT_EQ(first.options().constraint.prove_every, 1);
  const TrainSummary summary = first.run();
  EXPECT_LE(summary.bound->lipschitz.value, 5.0);
  EXPECT_LE(summary.bound_of_caps.to_double(), 5.0);
  EXPECT_GE(summary.bound_of_caps.to_double(), 4.999);
  std::set<std::string> seen;
  for (const auto& line : metrics(whole)) {
    if (!line.contains("caps")) continue;
    EXPECT_LE(line["bound_of_caps"].get<double>(), 5.0);
    seen.insert(line["caps"].dump());
    for (const auto& [name, cap] : line["caps"].items())
      EXPECT_LE(line["norms"][name].get<double>(), cap.get<double>()) << name;
  }
  EXPECT_EQ(seen.size(), 1U);
  // Stopped in the middle, after the first checkpoint, and gone on with.
  std::atomic<bool> stop{false};
  Trainer(options, data / "halved", {.progress = [&](const TrainProgress& p) { stop = p.step >= 7; }})
      .run(&stop);
  Trainer::resume(data / "halved")->run();
  expect_same_run(whole, data / "halved");
}

TEST(Trainer, KeepsABudgetByThePapersFormulaButCertifiesTheSoundBound) {
  const TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run();
  options.constraint.lipschitz = 2.0;
  options.constraint.formula = BoundFormula::paper;
  const TrainSummary summary = Trainer(options, data / "run").run();
  EXPECT_TRUE(summary.papers_budget);
  const auto run = open_run(data / "run");
  EXPECT_EQ(run.options.constraint.heads, HeadBlocks::whole);
  EXPECT_LE(paper_formula(*run.model, *measured_norms()).to_double(), 2.0);
  // The certificate states the sound bound of the same weights, not the formula.
  EXPECT_EQ(read_certificate(data / "run" / "certificate.json").bound.lipschitz.value,
            summary.bound->lipschitz.value);
  EXPECT_ERROR(seal_run(data / "run", data / "sealed"), InputError, "name one with --lipschitz");
  EXPECT_LE(seal_run(data / "run", data / "sealed", 2.0).bound.lipschitz.value, 2.0);
  options.constraint.heads = HeadBlocks::kv;
  EXPECT_ERROR(Trainer(options, data / "other"), InputError, "use whole");
}

TEST(Trainer, RefusesABudgetThatCannotBeKept) {
  const TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run();
  options.constraint.lipschitz = 5.0;
  options.constraint.options.method = "none";
  EXPECT_ERROR(Trainer(options, data / "run"), InputError, "no cap to keep a budget with");
  options.constraint.options.method = "soft_cap";
  options.constraint.lipschitz = -1.0;
  EXPECT_ERROR(Trainer(options, data / "run"), InputError, "must be positive, or 0 for no budget, got -1");
  options.constraint.lipschitz = 1e-6;
  EXPECT_ERROR(
      Trainer(options, data / "run"), InputError,
      "cannot be met: with the head's cap at 0.0001 and every other at 1 this model's bound is still");
  options.constraint.lipschitz = 1e-3;
  options.model.transformer.tie_embeddings = true;
  EXPECT_ERROR(Trainer(options, data / "run"), InputError, "cannot be met");
  EXPECT_FALSE(std::filesystem::exists(data / "run"));
}

TEST(Trainer, SealsAtTheEndWhatWasNotProvedYet) {
  const TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run();
  options.constraint.options.method = "normalize";
  options.constraint.prove_every = 1000;
  options.training.steps = 3;
  options.training.evaluate_every = options.training.checkpoint_every = 0;
  const TrainSummary summary = Trainer(options, data / "run").run();
  const auto run = open_run(data / "run");
  for (const Param& param : run.model->params())
    if (is_matrix(param.role)) {
      EXPECT_TRUE(prove_norm(param, 2.0)) << param.name;
    }
  EXPECT_EQ(summary.sealed, summary.repairs > 0);
}

TEST(Trainer, ForgetsWhatCameAfterTheCheckpoint) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "whole").run();
  Trainer(small_run(), data / "run").run();
  std::filesystem::remove_all(data / "run/state/step_00000020");  // as if it had been killed before that
  Trainer::resume(data / "run")->run();
  expect_same_run(data / "whole", data / "run");
}

TEST(Trainer, GoesBackToAnOlderCheckpointWhereTheNewestIsDamaged) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "whole").run();
  Trainer(small_run(), data / "run").run();
  const auto newest = data / "run/state/step_00000020/state.safetensors";
  write_file(newest, read_file(newest).substr(0, 1000));
  std::string note;
  Trainer::resume(data / "run", {{}, [&note](const std::string& text) { note = text; }})->run();
  EXPECT_NE(note.find("an older checkpoint serves"), std::string::npos);
  expect_same_run(data / "whole", data / "run");
}

TEST(Trainer, GoesBackToAnOlderCheckpointAtOneFlippedBit) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "whole").run();
  Trainer(small_run(), data / "run").run();
  for (const char* name : {"SHA256SUMS", "config.toml", "state.json", "state.safetensors"}) {
    const auto path = data / "run/state/step_00000020" / name;
    std::string flipped = read_file(path);
    flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
    write_file(path, flipped);
    std::string note;
    Trainer::resume(data / "run", {{}, [&note](const std::string& text) { note = text; }})->run();
    EXPECT_NE(note.find("an older checkpoint serves"), std::string::npos) << name;
    expect_same_run(data / "whole", data / "run");
  }
}

TEST(Trainer, RefusesAConfigThatIsCutOffOrChanged) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "run").run();
  const auto path = data / "run/config.toml";
  const std::string whole = read_file(path);
  for (const size_t size :
       {size_t{0}, whole.find("[model]"), whole.find("[training]"), whole.rfind("checkpoint_every")}) {
    write_file(path, whole.substr(0, size));
    EXPECT_ERROR(Trainer::resume(data / "run"), InputError, "config.toml must hold every key");
  }
  EXPECT_ERROR(Trainer::resume(data / "run"), InputError,
               "add, each under its section: training.checkpoint_every = 200");
  std::string changed = whole;
  changed.replace(changed.find("sigma_max = 2.0"), 15, "sigma_max = 3.0");
  write_file(path, changed);
  EXPECT_ERROR(Trainer::resume(data / "run"), InputError, "constraint.sigma_max = 3.0 instead of 2.0");
  write_file(path, whole);
  EXPECT_TRUE(Trainer::resume(data / "run")->run().finished);
}

TEST(Trainer, GoesOnWithoutItsMetrics) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "whole").run();
  for (const int64_t kept : {-1, 0, 10, 700}) {
    const auto run = data / ("run" + std::to_string(kept));
    Trainer(small_run(), run).run();
    std::filesystem::remove_all(run / "state/step_00000020");
    const std::string metrics_text = read_file(run / "metrics.jsonl");
    std::filesystem::remove(run / "metrics.jsonl");
    if (kept >= 0) write_file(run / "metrics.jsonl", metrics_text.substr(0, static_cast<size_t>(kept)));
    std::string note;
    Trainer::resume(run, {{}, [&note](const std::string& text) { note = text; }})->run();
    EXPECT_NE(note.find("metrics.jsonl"), std::string::npos);
    EXPECT_TRUE(read_file(data / "whole/model.safetensors") == read_file(run / "model.safetensors"));
    EXPECT_EQ(metrics(run).back(), metrics(data / "whole").back());
  }
}

TEST(Trainer, ResumesOnlyTheRecipeOfItsRun) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "run").run();
  EXPECT_TRUE(Trainer::resume(data / "run", {}, small_run())->run().finished);
  RunOptions other = small_run();
  other.optimizer.lr = 0.25;
  other.training.steps = 30;
  EXPECT_ERROR(Trainer::resume(data / "run", {}, other), InputError,
               "optimizer.lr = 0.25 instead of 0.5; training.steps = 30 instead of 20");
}

// Killed before config.toml was there: only the lock is.
TEST(Trainer, BeginsWhereARunWasKilledBeforeItBegan) {
  const TemporaryData data;
  test::import_words(data);
  make_folder(data / "run/state");
  write_file(data / "run/state/.lock", "");
  write_file(data / "run/.config.toml.17.new", "[da");
  EXPECT_TRUE(Trainer(small_run(), data / "run").run().finished);
}

TEST(Trainer, MakesWhatARunLacksThatWasKilledAfterItsConfig) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "whole").run();
  { const Trainer first(small_run(), data / "run"); }
  for (const char* name : {"metrics.jsonl", "vocab.json"}) std::filesystem::remove(data / "run" / name);
  Trainer::resume(data / "run")->run();
  expect_same_run(data / "whole", data / "run");
  EXPECT_EQ(read_file(data / "whole/vocab.json"), read_file(data / "run/vocab.json"));
}

TEST(Trainer, LeavesAFinishedRunAsItIs) {
  const TemporaryData data;
  test::import_words(data);
  Trainer(small_run(), data / "run").run();
  // A certificate that says more than the run's own: of inputs that may be moved.
  ModelFiles files(data / "run");
  const StoredModel stored = files.read();
  const Certificate wider = certificate_of(stored.identity, *stored.model, certify(*stored.model, 0.25), 0.5);
  write_certificate(data / "run/certificate.json", wider);
  const std::string before = read_file(data / "run/certificate.json");
  EXPECT_TRUE(Trainer::resume(data / "run")->run().finished);
  EXPECT_EQ(read_file(data / "run/certificate.json"), before);
  std::filesystem::remove(data / "run/certificate.json");
  Trainer::resume(data / "run")->run();
  check_certificate(data / "run/certificate.json", data / "run");
}

TEST(Trainer, KeepsTheLastGoodCheckpointWhenTheLossIsNotFinite) {
  const TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run();
  options.optimizer.method = OptimizerMethod::adamw;
  options.optimizer.lr = 1e38;
  options.constraint.options.method = "none";
  options.constraint.embedding_cap = 0.0;
  options.training.checkpoint_every = 1;
  Trainer trainer(options, data / "run");
  EXPECT_THROW(trainer.run(), NumericError);
  const auto checkpoint = read_newest_checkpoint(data / "run");
  ASSERT_TRUE(checkpoint.has_value());
  for (const auto& [name, tensor] : checkpoint->tensors.tensors)
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
}

TEST(Trainer, RefusesAFolderThatHoldsARun) {
  const TemporaryData data;
  test::import_words(data);
  { const Trainer first(small_run(), data / "run"); }
  const std::string before = read_file(data / "run/config.toml");
  EXPECT_ERROR(Trainer(small_run(), data / "run"), InputError,
               "holds a run already; resume it with --resume auto");
  EXPECT_EQ(read_file(data / "run/config.toml"), before);
}

TEST(Trainer, SaysWhatIsWrongWithARecipe) {
  const TemporaryData data;
  test::import_words(data);
  const auto refused = [&](const std::function<void(RunOptions&)>& change, const char* part) {
    RunOptions options = small_run();
    change(options);
    EXPECT_ERROR(Trainer(options, data / "refused"), InputError, part);
    EXPECT_FALSE(std::filesystem::exists(data / "refused"));
  };
  refused([](RunOptions& o) { o.data.name = "nothing"; }, "'nothing' is not in");
  refused([](RunOptions& o) { o.model.kind = ModelKind::mlp; },
          "does not fit the data set 'words', which holds tokens");
  refused([](RunOptions& o) { o.model.transformer.vocab_size = 5; }, "model.vocab_size = 5 and");
  refused([](RunOptions& o) { o.model.transformer.max_position_embeddings = 31; },
          "model.max_position_embeddings must be at least data.sequence_length = 32, got 31");
  refused([](RunOptions& o) { o.model.mlp.activation = ActivationKind::maxmin; },
          "model.mlp_activation = 'maxmin' is for model.kind = 'mlp'");
  refused([](RunOptions& o) { o.data.batch_size = 1'000'000'000; }, "lower data.batch_size");
  refused([](RunOptions& o) { o.model.transformer.hidden_size = 100'000; }, "lower model.hidden_size");
  refused([](RunOptions& o) { o.constraint.options.method = "soft_cup"; }, "soft_cap");
  refused([](RunOptions& o) { o.training.steps = 0; }, "training.steps must be at least 1, got 0");
  refused([](RunOptions& o) { o.data.sequence_length = 100000; }, "sequence_length = 100000 needs");
  refused([](RunOptions& o) { o.optimizer.method = OptimizerMethod::adamw; },
          "soft_cap");  // which needs updates of known norm
}

}  // namespace
}  // namespace bridle
