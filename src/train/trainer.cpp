// How a run begins and goes on: from a recipe, which names a model and its data, or from both as a program has made them.
#include "bridle/train.h"

#include <fmt/format.h>

#include "base/files.h"
#include "bridle/error.h"
#include "train/options.h"
#include "train/training_run.h"

namespace bridle {
namespace {

using Path = std::filesystem::path;

// What a run leaves that was killed before its config.toml was written: its lock, and the file on its way there.
bool is_left_over(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (name.starts_with(".config.toml.")) return true;
  if (name != "state" || !entry.is_directory()) return false;
  for (const auto& inner : std::filesystem::directory_iterator(entry))
    if (inner.path().filename() != ".lock") return false;
  return true;
}

void refuse_run(const Path& folder) {
  if (std::filesystem::exists(folder / "config.toml"))
    throw InputError(
        "train", fmt::format("{} holds a run already; resume it with --resume auto, or choose another --out",
                             folder.string()));
}

void refuse_others_files(const Path& folder) {
  const auto refuse = [&] {
    throw InputError("train",
                     fmt::format("{} is there and is not empty; choose another --out", folder.string()));
  };
  if (!std::filesystem::exists(folder)) return;
  if (!std::filesystem::is_directory(folder)) refuse();
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (!is_left_over(entry)) refuse();
}

// A recipe's model and data; the options are resolved.
TrainerParts parts_of(const RunOptions& options, const DataSet& data) {
  const Split split = options.data.held_out > 0.0 ? Split::held_out : Split::validation;
  TrainerParts parts;
  parts.train = open_split(data, Split::train, source_options(options));
  parts.validation = open_split(data, split, source_options(options));
  parts.model = make_recipe_model(options);
  return parts;
}

void check(const TrainerParts& parts) {
  if (!parts.model || !parts.train || !parts.validation)
    throw InputError("train", "a run needs a model, a train and a validation source: one of them is null");
  if (parts.model->params().empty()) throw InputError("train", "the model must have params, got none");
}

// With config.toml there is a run. All that comes after it can be made again by a resume.
std::unique_ptr<TrainingRun> new_run(TrainingRun::Setup setup) {
  const Path folder = setup.folder;
  const std::string config = setup.config;
  auto run = std::make_unique<TrainingRun>(std::move(setup));
  run->state().constraints->start_();
  run->lock();
  refuse_run(folder);  // another process may have begun one since
  write_file(folder / "config.toml", config);
  run->begin();
  return run;
}

std::unique_ptr<TrainingRun> resumed_run(TrainingRun::Setup setup) {
  auto run = std::make_unique<TrainingRun>(std::move(setup));
  run->lock();
  if (!run->go_on()) {
    run->state().constraints->start_();
    run->begin();
  }
  return run;
}

void copy_tokenizer(const DataSet& data, const Path& folder) {
  if (data.has_tokenizer) load_tokenizer(data.folder)->save(folder);
}

// What raw inputs of the run's model must be standardised by.
void copy_statistics(const DataSet& data, const Path& folder) {
  constexpr const char* name = "statistics.json";
  if (data.vectors && std::filesystem::exists(data.folder / name))
    write_file(folder / name, read_file(data.folder / name));
}

void check_recipe(const RunOptions& recipe, const RunOptions& own, const Path& folder) {
  const std::string differing = differing_settings(resolved(recipe, open_data_set(recipe.data.name)), own);
  if (!differing.empty())
    throw InputError("train", fmt::format("this recipe is not that of the run in {}: {}; go on with "
                                          "bridle train --resume {}, or train into another --out",
                                          folder.string(), differing, folder.string()));
}

}  // namespace

Trainer::Trainer(const RunOptions& options, const Path& folder, const TrainListener& listener) {
  refuse_run(folder);
  refuse_others_files(folder);
  const DataSet data = open_data_set(options.data.name);
  const RunOptions complete = resolved(options, data);
  run_ = new_run({complete, parts_of(complete, data), folder, recipe_text(complete), listener});
  copy_tokenizer(data, folder);
  copy_statistics(data, folder);
}

Trainer::Trainer(const RunOptions& options, TrainerParts parts, const Path& folder,
                 const TrainListener& listener) {
  refuse_run(folder);
  refuse_others_files(folder);
  check(parts);
  const RunOptions complete = resolved_for(options, parts.model->shape().input);
  run_ = new_run({complete, std::move(parts), folder, config_without_recipe(complete), listener});
}

Trainer::Trainer(std::unique_ptr<TrainingRun> run) : run_(std::move(run)) {}
Trainer::~Trainer() = default;

std::unique_ptr<Trainer> Trainer::resume(const Path& folder, const TrainListener& listener,
                                         const std::optional<RunOptions>& recipe) {
  RunOptions options = read_config(folder / "config.toml");
  if (recipe) options.device = recipe->device;
  const DataSet data = open_data_set(options.data.name);
  const RunOptions complete = resolved(options, data);
  if (recipe) check_recipe(*recipe, complete, folder);
  auto run = resumed_run({complete, parts_of(complete, data), folder, recipe_text(complete), listener});
  if (run->state().step == 0) copy_tokenizer(data, folder);
  return std::unique_ptr<Trainer>(new Trainer(std::move(run)));
}

std::unique_ptr<Trainer> Trainer::resume(const Path& folder, TrainerParts parts,
                                         const TrainListener& listener) {
  check(parts);
  const RunOptions complete =
      resolved_for(read_config_without_recipe(folder / "config.toml"), parts.model->shape().input);
  return std::unique_ptr<Trainer>(new Trainer(
      resumed_run({complete, std::move(parts), folder, config_without_recipe(complete), listener})));
}

TrainSummary Trainer::run(const std::atomic<bool>* stop) { return run_->run(stop); }
const Model& Trainer::model() const { return *run_->state().model; }
const RunOptions& Trainer::options() const { return run_->state().options; }

}  // namespace bridle
