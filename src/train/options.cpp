#include "train/options.h"

#include <fmt/format.h>

#include <set>

#include "base/files.h"
#include "base/toml_text.h"
#include "bridle/error.h"
#include "nn/model_options.h"

namespace bridle {

const char* word(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return "float32";
    case Precision::bfloat16:
      return "bfloat16";
  }
  return nullptr;
}

const char* word(HeadBlocks heads) {
  switch (heads) {
    case HeadBlocks::automatic:
      return "auto";
    case HeadBlocks::whole:
      return "whole";
    case HeadBlocks::kv:
      return "kv";
    case HeadBlocks::qkv:
      return "qkv";
  }
  return nullptr;
}

const char* word(BoundFormula formula) {
  switch (formula) {
    case BoundFormula::sound:
      return "sound";
    case BoundFormula::paper:
      return "paper";
  }
  return nullptr;
}

const char* word(SinkKind kind) {
  switch (kind) {
    case SinkKind::jsonl:
      return "jsonl";
    case SinkKind::tensorboard:
      return "tensorboard";
  }
  return nullptr;
}

namespace {

Settings data_settings(DataOptions& o) {
  return {
      {"data.name", &o.name, "a data set, as bridle data list shows them"},
      {"data.sequence_length", &o.sequence_length, "tokens in a sequence"},
      {"data.batch_size", &o.batch_size, "sequences or images in a batch"},
      {"data.order", choice(&o.order), "of training examples"},
      {"data.held_out", &o.held_out, "share of the training part that is kept back, to choose settings by"},
      {"data.token_noise", &o.token_noise,
       "text: share of tokens that training reads wrongly, against overfitting"},
      {"data.standardize", &o.standardize, "images: channels with mean 0 and deviation 1"},
      {"data.mirror", &o.mirror, "images: training flips half of them left to right, against overfitting"},
      {"data.shift", &o.shift, "images: training shifts them by up to so many pixels, both ways"},
      {"data.random_labels", &o.random_labels, "images: share of training labels drawn at random"}};
}

Settings optimizer_settings(OptimizerOptions& o) {
  return {
      {"optimizer.method", choice(&o.method), "for matrices"},
      {"optimizer.lr", &o.lr, "learning rate, before schedule and shares"},
      {"optimizer.weight_decay", &o.weight_decay, "λ of W ← (1 − λη)W"},
      {"optimizer.momentum", &o.momentum, "of Muon and of row-normalised embeddings"},
      {"optimizer.momentum_start", &o.momentum_start, "momentum grows from here; 0: it does not"},
      {"optimizer.momentum_warmup_steps", &o.momentum_warmup_steps, "over so many steps"},
      {"optimizer.nesterov", &o.nesterov, "Nesterov's momentum"},
      {"optimizer.ns_coefficients", choice(&o.ns_coefficients), "of the orthogonalisation"},
      {"optimizer.beta1", &o.beta1, "Adam's"},
      {"optimizer.beta2", &o.beta2, "Adam's"},
      {"optimizer.eps", &o.eps, "Adam's"},
      {"optimizer.bias_correction", &o.bias_correction, "true: PyTorch's Adam; false: the paper's"},
      {"optimizer.adam_lr", &o.adam_lr, "of position biases, gains and biases under muon"},
      {"optimizer.embedding", choice(&o.embedding),
       "rule of the embedding; auto: row_normalize under muon, adam under adamw"},
      {"optimizer.inflation_limit", &o.inflation_limit, "row_normalize: a row is multiplied by at most this"},
      {"optimizer.embedding_lr", &o.embedding_lr, "0: lr with its share"},
      {"optimizer.head_lr", &o.head_lr, "0: lr with its share"},
      {"optimizer.shares", &o.mass.use, "learning rates from masses and sensitivities"},
      {"optimizer.blocks_mass", &o.mass.blocks_mass, "of all weights in blocks together"},
      {"optimizer.embedding_mass", &o.mass.embedding_mass, "of the embedding"},
      {"optimizer.head_mass", &o.mass.head_mass, "of the head"},
      {"optimizer.residual_sensitivity", choice(&o.mass.residual_sensitivity),
       "what a residual divides the rates before it by"},
      {"optimizer.gradient_clip", &o.gradient_clip, "norm of all gradients together; 0: off"}};
}

Settings schedule_settings(ScheduleOptions& o) {
  return {{"schedule.shape", choice(&o.shape), "of the learning rate"},
          {"schedule.warmup_steps", &o.warmup_steps, "steps over which the rate grows first"},
          {"schedule.decay_share", &o.decay_share, "stable_decay: the last part of all steps"},
          {"schedule.final_share", &o.final_share, "what the rate falls to"}};
}

Settings constraint_settings(ConstraintSettings& o) {
  return {{"constraint.method", &o.options.method, "see docs/theory/constraints.md"},
          {"constraint.sigma_max", &o.sigma_max, "cap of the RMS→RMS norm"},
          {"constraint.head_sigma_max", &o.head_sigma_max, "cap of the head's norm; 0: sigma_max"},
          {"constraint.heads", choice(&o.heads),
           "constrained head by head: whole (none), kv, qkv; auto: kv with a budget"},
          {"constraint.lipschitz", &o.lipschitz,
           "budget, kept at every step (--lipschitz); 0: sigma_max instead"},
          {"constraint.formula", choice(&o.formula),
           "of a budget: sound; or paper, to compare with it: no bound"},
          {"constraint.embedding_cap", &o.embedding_cap, "RMS of an embedding's row; 0: no cap"},
          {"constraint.prove_every", &o.prove_every, "steps between proofs; evaluation and saving prove too"},
          {"constraint.power_rounds", &o.options.power_rounds,
           "rounds of power iteration a step, of the methods that have some"},
          {"constraint.coupling_room", &o.coupling_room,
           "methods prepare for updates so many times as long as their bound"},
          {"constraint.spectral_decay", &o.options.spectral_decay, "spectral_weight_decay's share"},
          {"constraint.floor", &o.options.floor, "clip's lower end"},
          {"constraint.clip_decay", &o.options.clip_decay, "clipped_weight_decay's λ"},
          {"constraint.parseval_strength", &o.options.parseval_strength, "parseval's β"}};
}

Settings training_settings(TrainingOptions& o) {
  return {{"training.steps", &o.steps, "optimizer steps"},
          {"training.seed", &o.seed, "of weights, order, labels, dropout, token noise and augmentation"},
          {"training.precision", choice(&o.precision), "of products; master weights are float32"},
          {"training.accumulate", &o.accumulate, "batches per step"},
          {"training.slices", &o.slices,
           "equal parts of a batch, one pass each; ranks share the accumulate x slices of a step"},
          {"training.margin", &o.margin, "taken off the right logit in the loss: larger certified radii"},
          {"training.grow_windows", &o.grow_windows,
           "attention windows grow from one block of tokens to all of them, with the steps"},
          {"training.log_every", &o.log_every, "steps between lines of metrics.jsonl"},
          {"training.log_activations", &o.log_activations,
           "metrics have the largest RMS and the largest entry after every layer"},
          {"training.evaluate_every", &o.evaluate_every, "steps; 0: at the end only"},
          {"training.evaluate_tokens", &o.evaluate_tokens,
           "targets of the validation split, from its beginning; 0: all"},
          {"training.checkpoint_every", &o.checkpoint_every, "steps; 0: at the end only"},
          {"training.sinks", choice_list(&o.sinks),
           "where metrics go: jsonl, and tensorboard for event files in RUN/tensorboard"}};
}

}  // namespace

Settings run_settings(RunOptions& options) {
  Settings all;
  for (const Settings& part : {data_settings(options.data), recipe_settings(options.model, "model."),
                               optimizer_settings(options.optimizer), schedule_settings(options.schedule),
                               constraint_settings(options.constraint), training_settings(options.training)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

RunOptions read_recipe(const std::filesystem::path& path, const std::vector<std::string>& set) {
  RunOptions options;
  const Settings settings = run_settings(options);
  read_toml(settings, read_file(path, kTomlLargestText), path.string());
  for (const std::string& assignment : set) set_value(settings, assignment);
  return options;
}

namespace {

// What a model and data that a program has made take the place of.
bool is_of_recipe(const std::string& key) {
  static const std::set<std::string> of_data_set{"data.name", "data.held_out", "data.standardize",
                                                 "data.random_labels"};
  return key.starts_with("model.") || of_data_set.contains(key);
}

Settings settings_without_recipe(RunOptions& options) {
  Settings settings = run_settings(options);
  std::erase_if(settings, [](const Setting& setting) { return is_of_recipe(setting.key); });
  return settings;
}

void refuse_missing(const Settings& settings, const std::set<std::string>& named,
                    const std::filesystem::path& path) {
  std::vector<const Setting*> missing;
  for (const Setting& setting : settings)
    if (!named.contains(setting.key)) missing.push_back(&setting);
  if (!missing.empty()) {
    std::string lines;
    for (const Setting* setting : missing)
      lines += fmt::format("{}{} = {}", lines.empty() ? "" : ", ", setting->key, value_text(*setting));
    throw InputError(
        "settings",
        fmt::format("{} must hold every key, and {} are missing. If it was cut off, restore it from "
                    "state/step_…/config.toml; if an earlier version of Bridle wrote it, add, each under "
                    "its section: {}",
                    path.string(), missing.size(), lines));
  }
}

}  // namespace

RunOptions config_from(const std::string& text, const std::filesystem::path& path) {
  RunOptions options;
  const Settings settings = run_settings(options);
  const std::set<std::string> named = read_toml(settings, text, path.string());
  if (!named.empty() && !named.contains("data.name"))
    throw InputError("settings",
                     fmt::format("{} is of a run whose model and data a program has made: only that program "
                                 "can go on with it, by Trainer::resume with its TrainerParts",
                                 path.string()));
  refuse_missing(settings, named, path);
  return options;
}

RunOptions read_config(const std::filesystem::path& path, const std::vector<std::string>& set) {
  RunOptions options = config_from(read_file(path, kTomlLargestText), path);
  const Settings settings = run_settings(options);
  for (const std::string& assignment : set) set_value(settings, assignment);
  return options;
}

RunOptions read_config_without_recipe(const std::filesystem::path& path) {
  RunOptions options;
  const std::set<std::string> named =
      read_toml(run_settings(options), read_file(path, kTomlLargestText), path.string());
  if (named.contains("data.name"))
    throw InputError("settings",
                     fmt::format("{} is of a recipe's run: resume it without TrainerParts", path.string()));
  refuse_missing(settings_without_recipe(options), named, path);
  return options;
}

std::string config_without_recipe(const RunOptions& options) {
  RunOptions copy = options;
  return to_toml(settings_without_recipe(copy));
}

std::string differing_settings(RunOptions first, RunOptions second) {
  std::string text;
  for (const SettingDifference& found : differences(run_settings(first), run_settings(second)))
    text += fmt::format("{}{} = {} instead of {}", text.empty() ? "" : "; ", found.key, found.first,
                        found.second);
  return text;
}

void check_copy(const RunOptions& config, const std::string& copy, const std::filesystem::path& path) {
  RunOptions kept = config;
  read_toml(run_settings(kept), copy, "the checkpoint's config.toml");
  const std::string differing = differing_settings(config, kept);
  if (!differing.empty())
    throw InputError("train", fmt::format("{} is not what the run was trained with: {}; restore it from "
                                          "state/step_…/config.toml",
                                          path.string(), differing));
}

std::string recipe_text(const RunOptions& options) {
  RunOptions copy = options;
  return to_toml(run_settings(copy));
}

SourceOptions source_options(const RunOptions& options) {
  return {.sequence_length = options.data.sequence_length,
          .held_out = options.data.held_out,
          .standardize = options.data.standardize,
          .random_labels = options.data.random_labels,
          .seed = options.training.seed};
}

std::string recipe_keys() {
  RunOptions defaults;
  std::string text;
  for (const Setting& setting : run_settings(defaults)) {
    const auto* words = std::get_if<Choice>(&setting.place);
    text += fmt::format("{:<34}{:<18} {}{}\n", setting.key, value_text(setting), setting.help,
                        words == nullptr ? "" : " (" + words->words() + ")");
  }
  return text;
}

}  // namespace bridle
