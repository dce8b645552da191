// One run after another: claim it, train it or go on with it, measure it, write down what came out.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/files.h"
#include "base/library_error.h"
#include "base/stopwatch.h"
#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/predictions.h"
#include "bridle/run.h"
#include "bridle/sweep.h"
#include "sweep/registry.h"
#include "sweep/results.h"
#include "sweep/shard.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

constexpr double kRadius = 36.0 / 255.0;  // ℓ2, that of most published figures for CIFAR-10
constexpr uintmax_t kRoom = 16 << 20;     // bytes without which a failure is the disk's

bool has_checkpoint(const fs::path& folder) {
  if (!fs::is_directory(folder / "state")) return false;
  return std::ranges::any_of(fs::directory_iterator(folder / "state"), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("step_");
  });
}

// A run that was cut short goes on; one that was killed before it was a run begins again.
std::unique_ptr<Trainer> open_trainer(const SweepRun& run, const fs::path& folder,
                                      const TrainListener& listener) {
  if (fs::exists(folder / "config.toml")) return Trainer::resume(folder, listener);
  if (has_checkpoint(folder))
    throw InputError("sweep", fmt::format("{} has checkpoints but no config.toml: restore it from "
                                          "state/step_…/config.toml, or remove the folder to begin again",
                                          folder.string()));
  fs::remove_all(folder);
  make_folder(folder.parent_path());
  return std::make_unique<Trainer>(read_recipe(run.recipe, run.set), folder, listener);
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

// What a finished run is worth: losses on the part that its settings keep for that, and both bounds.
Cells measured(const fs::path& folder, const TrainSummary& summary) {
  const Run run = open_run(folder);
  const Split split = run.options.data.held_out > 0.0 ? Split::held_out : Split::validation;
  Cells cells{{"split", word(split)},
              {"loss", number(summary.validation_loss)},
              {"accuracy", number(summary.validation_accuracy)},
              {"repairs", std::to_string(summary.repairs)},
              {"steps", std::to_string(summary.step)},
              {"seconds", number(summary.seconds)}};
  if (summary.train_loss > 0.0)
    cells["train_loss"] = number(summary.train_loss);  // unknown where nothing was left but to measure
  if (summary.bound) cells["log10_bound"] = number(summary.bound->lipschitz.log10);
  try {
    cells["log10_paper_bound"] = number(paper_formula(*run.model, *measured_norms()).log10());
    cells["log10_coded_bound"] =
        number(paper_formula(*run.model, *measured_norms(), FinalScale::forgotten).log10());
  } catch (const InputError&) {
    // the paper has no formula for this model
  }
  if (run.tokenizer) {
    const EvaluateOptions paper{
        .order = {.protocol = Protocol::paper, .batch_size = run.options.data.batch_size}};
    const EvaluationResult result = evaluate(*run.model, open_run_split(run, split), paper);
    cells["paper_loss"] = number(result.loss);
    cells["paper_accuracy"] = number(result.accuracy);
  } else if (summary.bound) {
    const CertifiedPredictions result = certify_predictions(
        *run.model, open_run_split(run, split),
        {.epsilons = {kRadius}, .standardised = pixel_statistics(run), .order = {.batch_size = 1000}});
    cells["certified_accuracy"] = number(result.of("float32").shares.front().certified_accuracy);
  }
  return cells;
}

// Trains a run and measures it; none where it was asked to stop. Throws errors of Bridle's kinds alone, for people to read.
std::optional<Cells> trained(const SweepRun& run, const fs::path& folder, const TrainListener& listener,
                             const std::atomic<bool>* stop) {
  try {
    const TrainSummary summary = open_trainer(run, folder, listener)->run(stop);
    if (!summary.finished) return std::nullopt;
    return measured(folder, summary);
  } catch (...) {
    rethrow_translated("train");
  }
}

// Tells the registry how far a run is, every few seconds.
TrainListener reporter(Registry& registry, const std::string& key) {
  return {.progress = [&registry, key, last = std::optional<Timer>()](const TrainProgress& progress) mutable {
    constexpr double pause = 3.0;
    if (last && last->seconds() < pause) return;
    last.emplace();
    try {
      registry.set_step(key, progress.step);
    } catch (const InputError&) {
      // only for people to look at
    }
  }};
}

}  // namespace

SweepRecord::SweepRecord(Sweep sweep, For purpose) : sweep_(std::move(sweep)) {
  const fs::path file = sweep_.folder / "sweep.db";
  registry_ = std::make_unique<Registry>(purpose == For::work || fs::exists(file) ? file : kInMemory,
                                         fs::absolute(sweep_.file).lexically_normal().string());
  registry_->set_runs(sweep_.runs, known_results());
}

std::vector<std::map<std::string, std::string>> SweepRecord::known_results() const {
  std::vector<Cells> known;
  for (const fs::path& file : results_files(sweep_.results)) {
    const std::vector<Cells> rows = parse_csv(read_file(file), file.string());
    known.insert(known.end(), rows.begin(), rows.end());
  }
  return known;
}

SweepRecord::~SweepRecord() = default;

std::vector<SweepEntry> SweepRecord::entries() const { return registry_->entries(); }

void SweepRecord::retry_failed() { registry_->retry_failed(); }

void SweepRecord::write_results() const {
  const FileLock lock(sweep_.folder / "results.lock");  // workers finish at the same time
  registry_->set_runs(sweep_.runs, known_results());    // what somebody else may have added
  write_file(sweep_.results, sweep_csv(entries()));
}

// False: it was asked to stop.
bool SweepRecord::train_one(const SweepRun& run, const SweepWorkerOptions& options) {
  const fs::path folder = sweep_.folder / "runs" / run.key;
  SweepStatus status = SweepStatus::done;
  Cells cells;
  try {
    auto result = trained(run, folder, reporter(*registry_, run.key), options.stop);
    if (!result) {
      registry_->release(run.key);
      return false;
    }
    cells = std::move(*result);
  } catch (const NumericError& error) {
    status = SweepStatus::diverged;
    cells["error"] = error.what();
  } catch (const Error& error) {
    if (fs::space(sweep_.folder).available < kRoom) {
      registry_->release(run.key);
      throw InputError("sweep", fmt::format("{}: the disk is full; make room, and start the sweep again ({})",
                                            sweep_.folder.string(), error.what()));
    }
    status = SweepStatus::failed;
    cells["error"] = error.what();
  }
  cells["commit"] = options.commit;
  registry_->finish(run.key, status, cells);
  write_results();
  if (!sweep_.keep && status != SweepStatus::failed) fs::remove_all(folder);
  return true;
}

void SweepRecord::work(const SweepWorkerOptions& options) {
  const std::string owner = this_process();
  std::set<std::string> known;
  for (const SweepRun& run : sweep_.runs) known.insert(run.key);
  while (options.stop == nullptr || !*options.stop) {
    const auto key = registry_->claim(owner, known);
    if (!key) return;
    const auto run = std::find_if(sweep_.runs.begin(), sweep_.runs.end(),
                                  [&](const SweepRun& r) { return r.key == *key; });
    if (!train_one(*run, options)) return;
  }
}

}  // namespace bridle
