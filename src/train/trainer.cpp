// How a run begins and goes on: from a recipe, which names a model and its data, or from both as a program has made them.
#include "bridle/train.h"

#include <fmt/format.h>

#include <sstream>

#include "base/files.h"
#include "bridle/error.h"
#include "dist/gather.h"
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

void refuse_what_is_there(const Path& folder) {
  refuse_run(folder);
  refuse_others_files(folder);
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

// Sections and lines of a config.toml; the first line that is not the same in both, with its section.
std::string first_difference(const std::string& own, const std::string& leaders) {
  std::istringstream a(own), b(leaders);
  std::string line, other, section;
  while (std::getline(a, line) && std::getline(b, other) && line == other)
    if (line.starts_with('[')) section = line + " ";
  return fmt::format("{}{} instead of {}", section, line, other);
}

// All ranks train the same on the same data: each says what it has been told and found.
void check_same(const TrainingRun::Setup& setup) {
  if (!setup.ranks || setup.ranks->size() == 1) return;
  const std::string own =
      fmt::format("{}\n[data here]\ntraining examples = {}\nvalidation examples = {}\n", setup.config,
                  setup.parts.train->size(), setup.parts.validation->size());
  const std::vector<std::string> all = gather_texts(*setup.ranks, own);
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw RankError("ranks",
                      fmt::format("rank {} of {} has another recipe or other data than rank 0: {}; start all "
                                  "with the same",
                                  r, all.size(), first_difference(all[r], all[0])));
}

bool leads(const std::shared_ptr<Ranks>& ranks) { return !ranks || ranks->leads(); }

// The config.toml of rank 0, on all of them.
RunOptions config_of_all(const Path& path, const std::shared_ptr<Ranks>& ranks) {
  if (!ranks || ranks->size() == 1) return read_config(path);
  std::vector<std::string> to(static_cast<size_t>(ranks->size()));
  if (ranks->leads()) to.assign(to.size(), recipe_text(read_config(path)));
  return config_from(text_from(*ranks, 0, to), path);
}

// With config.toml there is a run. All that comes after it can be made again by a resume.
std::unique_ptr<TrainingRun> new_run(TrainingRun::Setup setup) {
  const Path folder = setup.folder;
  const std::string config = setup.config;
  check_same(setup);
  const bool first = leads(setup.ranks);
  auto run = std::make_unique<TrainingRun>(std::move(setup));
  start_(run->state());
  run->lock();
  if (first) refuse_run(folder);  // another process may have begun one since
  if (first) write_file(folder / "config.toml", config);
  run->begin();
  return run;
}

std::unique_ptr<TrainingRun> resumed_run(TrainingRun::Setup setup) {
  check_same(setup);
  auto run = std::make_unique<TrainingRun>(std::move(setup));
  run->lock();
  if (!run->go_on()) {
    start_(run->state());
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

Trainer::Trainer(const RunOptions& options, const Path& folder, const TrainListener& listener,
                 std::shared_ptr<Ranks> ranks) {
  if (leads(ranks)) refuse_what_is_there(folder);
  const DataSet data = open_data_set(options.data.name);
  const RunOptions complete = resolved(options, data);
  const bool first = leads(ranks);
  run_ = new_run(
      {complete, parts_of(complete, data), folder, recipe_text(complete), listener, std::move(ranks)});
  if (!first) return;
  copy_tokenizer(data, folder);
  copy_statistics(data, folder);
}

Trainer::Trainer(const RunOptions& options, TrainerParts parts, const Path& folder,
                 const TrainListener& listener, std::shared_ptr<Ranks> ranks) {
  if (leads(ranks)) refuse_what_is_there(folder);
  check(parts);
  const RunOptions complete = resolved_for(options, parts.model->shape().input);
  run_ = new_run(
      {complete, std::move(parts), folder, config_without_recipe(complete), listener, std::move(ranks)});
}

Trainer::Trainer(std::unique_ptr<TrainingRun> run) : run_(std::move(run)) {}
Trainer::~Trainer() = default;

std::unique_ptr<Trainer> Trainer::resume(const Path& folder, const TrainListener& listener,
                                         const std::optional<RunOptions>& recipe,
                                         std::shared_ptr<Ranks> ranks) {
  RunOptions options = config_of_all(folder / "config.toml", ranks);
  if (recipe) options.device = recipe->device;
  const DataSet data = open_data_set(options.data.name);
  const RunOptions complete = resolved(options, data);
  if (recipe) check_recipe(*recipe, complete, folder);
  const bool first = leads(ranks);
  auto run = resumed_run(
      {complete, parts_of(complete, data), folder, recipe_text(complete), listener, std::move(ranks)});
  if (first && run->state().step == 0) copy_tokenizer(data, folder);
  return std::unique_ptr<Trainer>(new Trainer(std::move(run)));
}

std::unique_ptr<Trainer> Trainer::resume(const Path& folder, TrainerParts parts,
                                         const TrainListener& listener, std::shared_ptr<Ranks> ranks) {
  check(parts);
  const RunOptions complete =
      resolved_for(read_config_without_recipe(folder / "config.toml"), parts.model->shape().input);
  return std::unique_ptr<Trainer>(new Trainer(resumed_run(
      {complete, std::move(parts), folder, config_without_recipe(complete), listener, std::move(ranks)})));
}

TrainSummary Trainer::run(const std::atomic<bool>* stop) { return run_->run(stop); }
const Model& Trainer::model() const { return *run_->state().model; }
const RunOptions& Trainer::options() const { return run_->state().options; }

}  // namespace bridle
