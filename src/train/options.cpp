#include "train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files.h"
#include "base/nearest.h"
#include "base/toml_text.h"
#include "bridle/error.h"
#include "certify/choose.h"
#include "data/image_source.h"
#include "nn/model_options.h"
#include "train/constraint_set.h"

namespace bridle {
namespace {

Settings data_settings(DataOptions& o) {
  return {
      {"data.name", &o.name, "a data set, as bridle data list shows them"},
      {"data.sequence_length", &o.sequence_length, "tokens in a sequence"},
      {"data.batch_size", &o.batch_size, "sequences or images in a batch"},
      {"data.order", &o.order, "random, shuffled or sequential"},
      {"data.held_out", &o.held_out, "share of the training part that is kept back, to choose settings by"},
      {"data.token_noise", &o.token_noise,
       "text: share of tokens that training reads wrongly, against overfitting"},
      {"data.standardize", &o.standardize, "images: channels with mean 0 and deviation 1"},
      {"data.mirror", &o.mirror, "images: training sees half of them mirrored, against overfitting"},
      {"data.shift", &o.shift, "images: training sees them moved by up to so many pixels, both ways"},
      {"data.random_labels", &o.random_labels, "images: share of training labels drawn at random"}};
}

Settings optimizer_settings(OptimizerOptions& o) {
  return {
      {"optimizer.method", &o.method, "muon or adamw, for matrices"},
      {"optimizer.lr", &o.lr, "learning rate, before schedule and shares"},
      {"optimizer.weight_decay", &o.weight_decay, "λ of W ← (1 − λη)W"},
      {"optimizer.momentum", &o.momentum, "of Muon and of row-normalised embeddings"},
      {"optimizer.momentum_start", &o.momentum_start, "momentum grows from here; 0: it does not"},
      {"optimizer.momentum_warmup_steps", &o.momentum_warmup_steps, "over so many steps"},
      {"optimizer.nesterov", &o.nesterov, "Nesterov's momentum"},
      {"optimizer.ns_coefficients", &o.ns_coefficients, "six_step, five_step or classic"},
      {"optimizer.beta1", &o.beta1, "Adam's"},
      {"optimizer.beta2", &o.beta2, "Adam's"},
      {"optimizer.eps", &o.eps, "Adam's"},
      {"optimizer.bias_correction", &o.bias_correction, "true: PyTorch's Adam; false: the paper's"},
      {"optimizer.adam_lr", &o.adam_lr, "of position biases, gains and biases under muon"},
      {"optimizer.embedding", &o.embedding, "row_normalize or adam; auto: the first under muon"},
      {"optimizer.inflation_limit", &o.inflation_limit, "row_normalize: a row is multiplied by at most this"},
      {"optimizer.embedding_lr", &o.embedding_lr, "0: lr with its share"},
      {"optimizer.head_lr", &o.head_lr, "0: lr with its share"},
      {"optimizer.shares", &o.mass.use, "learning rates from masses and sensitivities"},
      {"optimizer.blocks_mass", &o.mass.blocks_mass, "of all weights in blocks together"},
      {"optimizer.embedding_mass", &o.mass.embedding_mass, "of the embedding"},
      {"optimizer.head_mass", &o.mass.head_mass, "of the head"},
      {"optimizer.residual_sensitivity", &o.mass.residual_sensitivity, "1, 2 or literal"},
      {"optimizer.gradient_clip", &o.gradient_clip, "norm of all gradients together; 0: off"}};
}

Settings schedule_settings(ScheduleOptions& o) {
  return {{"schedule.shape", &o.shape, "constant, linear, cosine or stable_decay"},
          {"schedule.warmup_steps", &o.warmup_steps, "steps over which the rate grows first"},
          {"schedule.decay_share", &o.decay_share, "stable_decay: the last part of all steps"},
          {"schedule.final_share", &o.final_share, "what the rate falls to"}};
}

Settings constraint_settings(ConstraintSettings& o) {
  return {{"constraint.method", &o.options.method, "see docs/theory/constraints.md"},
          {"constraint.sigma_max", &o.sigma_max, "cap of the RMS→RMS norm"},
          {"constraint.heads", &o.heads,
           "constrained head by head: whole (none), kv, qkv; auto: kv with a budget"},
          {"constraint.lipschitz", &o.lipschitz,
           "budget, kept at every step (--lipschitz); 0: sigma_max instead"},
          {"constraint.formula", &o.formula, "of a budget: sound; or paper, to compare with it: no bound"},
          {"constraint.caps", &o.caps, "with a budget: moving, or uniform"},
          {"constraint.cap_rate", &o.cap_rate, "moving: the most that the logarithm of a cap moves at once"},
          {"constraint.choose", &o.choose,
           "with a budget: keys of the model that it may set, or all (docs/training.md)"},
          {"constraint.move_every", &o.move_every, "moving: steps between moves"},
          {"constraint.embedding_cap", &o.embedding_cap, "RMS of an embedding's row; 0: no cap"},
          {"constraint.prove_every", &o.prove_every, "steps between proofs; evaluation and saving prove too"},
          {"constraint.spectral_decay", &o.options.spectral_decay, "spectral_weight_decay's share"},
          {"constraint.floor", &o.options.floor, "clip's lower end"},
          {"constraint.clip_decay", &o.options.clip_decay, "clipped_weight_decay's λ"},
          {"constraint.parseval_strength", &o.options.parseval_strength, "parseval's β"}};
}

Settings training_settings(TrainingOptions& o) {
  return {{"training.steps", &o.steps, "optimizer steps"},
          {"training.seed", &o.seed, "of weights, order, labels, dropout, token noise and moved images"},
          {"training.precision", &o.precision, "float32, or bfloat16 with float32 master weights"},
          {"training.accumulate", &o.accumulate, "batches a step"},
          {"training.margin", &o.margin, "taken off the right logit in the loss: larger certified radii"},
          {"training.log_every", &o.log_every, "steps between lines of metrics.jsonl"},
          {"training.evaluate_every", &o.evaluate_every, "steps; 0: at the end only"},
          {"training.checkpoint_every", &o.checkpoint_every, "steps; 0: at the end only"}};
}

// The largest RMS that standardised pixels can have: every one of them at the end of [0, 1] that is farther from its
// channel's mean; a little more, for rounding in float32.
double standardized_bound(const DataSet& data) {
  const ChannelStatistics statistics = channel_statistics(ImageFiles(data.train));
  double squares = 0.0;
  for (size_t channel = 0; channel < 3; ++channel) {
    const double mean = statistics.mean.at(channel);
    const double farthest = std::max(mean, 1.0 - mean) / statistics.deviation.at(channel);
    squares += farthest * farthest;
  }
  return std::sqrt(squares / 3.0) * (1.0 + 1e-5);
}

void check_one_of(const char* key, const std::string& value, const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  const std::string meant = nearest_word(value, allowed);
  throw InputError("settings", fmt::format("{} = '{}' is not known{}", key, value,
                                           meant.empty() ? "" : "; did you mean '" + meant + "'?"));
}

void check_at_least(const char* key, int64_t value, int64_t least) {
  if (value < least)
    throw InputError("settings", fmt::format("{} = {}; it must be at least {}", key, value, least));
}

void fit_(MlpOptions& model, const DataOptions& options, const DataSet& data) {
  if (model.layer_sizes.empty()) {
    model.layer_sizes = {3072};
    model.layer_sizes.insert(model.layer_sizes.end(), model.hidden_sizes.begin(), model.hidden_sizes.end());
    model.layer_sizes.push_back(data.outputs);
  }
  if (model.layer_sizes.front() != 3072 || model.layer_sizes.back() != data.outputs)
    throw InputError(
        "settings", fmt::format("model.layer_sizes go from {} to {}; the data has 3072 pixels and {} classes",
                                model.layer_sizes.front(), model.layer_sizes.back(), data.outputs));
  model.input_bound = options.standardize ? standardized_bound(data) : 1.0;
}

void fit_(TransformerOptions& model, const DataOptions& options, const DataSet& data) {
  if (model.vocab_size == 0) model.vocab_size = data.outputs;
  if (model.real_vocab_size == 0) model.real_vocab_size = data.outputs;
  if (model.vocab_size < data.outputs || model.real_vocab_size != data.outputs)
    throw InputError(
        "settings",
        fmt::format("model.vocab_size = {} and real_vocab_size = {} do not fit the data's {} tokens; leave "
                    "them out, or pad vocab_size alone",
                    model.vocab_size, model.real_vocab_size, data.outputs));
  if (model.max_position_embeddings == 0) model.max_position_embeddings = options.sequence_length;
  if (model.max_position_embeddings < options.sequence_length)
    throw InputError(
        "settings",
        fmt::format(
            "model.max_position_embeddings must be at least data.sequence_length = {}, got {}; leave it out",
            options.sequence_length, model.max_position_embeddings));
}

void check_range(const char* key, bool good, double value, const char* range) {
  if (!good) throw InputError("settings", fmt::format("{} = {}; it {}", key, value, range));
}

// A budget constrains keys and values head by head unless told otherwise, and proves every step.
void resolve_constraint_(RunOptions& options) {
  ConstraintSettings& c = options.constraint;
  const bool budget = c.lipschitz != 0.0;
  check_range("constraint.lipschitz", c.lipschitz >= 0.0 && std::isfinite(c.lipschitz), c.lipschitz,
              "is a positive number, or 0 for no budget");
  check_one_of("constraint.formula", c.formula, {"sound", "paper"});
  if (c.heads == "auto") c.heads = budget && c.formula == "sound" ? "kv" : "whole";
  if (budget && c.formula == "paper" && c.heads != "whole")
    throw InputError(
        "settings",
        fmt::format(
            "constraint.heads = '{}' with constraint.formula = 'paper': the formula knows norms of whole "
            "matrices only; use whole",
            c.heads));
  check_one_of("constraint.heads", c.heads, {"whole", "kv", "qkv"});
  check_one_of("constraint.caps", c.caps, {"moving", "uniform"});
  const auto method =
      make_constraint(c.options);  // throws, naming the nearest, where there is no such method
  check_range("constraint.sigma_max", c.sigma_max > 0.0 && std::isfinite(c.sigma_max), c.sigma_max,
              "must be positive");
  check_range("constraint.embedding_cap", c.embedding_cap >= 0.0, c.embedding_cap,
              "is positive, or 0 for none");
  check_range("constraint.cap_rate", c.cap_rate > 0.0 && c.cap_rate <= 0.5, c.cap_rate,
              "is positive and at most 0.5");
  check_at_least("constraint.move_every", c.move_every, 1);
  check_at_least("constraint.prove_every", c.prove_every, 1);
  if (options.optimizer.method != "muon" && method->needs_update_bound())
    throw InputError("settings", fmt::format("constraint.method = '{}' needs updates of known norm, which "
                                             "optimizer.method = '{}' does not have; use "
                                             "muon, or a constraint such as normalize",
                                             c.options.method, options.optimizer.method));
  if (budget && !method->uses_cap())
    throw InputError("settings",
                     fmt::format("constraint.method = '{}' has no cap to keep a budget with; use soft_cap or "
                                 "another that has",
                                 c.options.method));
  if (budget) c.prove_every = 1;
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

RunOptions read_config(const std::filesystem::path& path, const std::vector<std::string>& set) {
  RunOptions options;
  const Settings settings = run_settings(options);
  const std::set<std::string> named = read_toml(settings, read_file(path, kTomlLargestText), path.string());
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
  for (const std::string& assignment : set) set_value(settings, assignment);
  return options;
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
  for (const Setting& setting : run_settings(defaults))
    text += fmt::format("{:<34}{:<18}{}\n", setting.key, value_text(setting), setting.help);
  return text;
}

Order order_named(const std::string& name) {
  check_one_of("data.order", name, {"random", "shuffled", "sequential"});
  return name == "random" ? Order::random : name == "shuffled" ? Order::shuffled : Order::sequential;
}

RunOptions resolved(RunOptions options, const DataSet& data) {
  const bool images = data.kind == DataKind::images;
  if (images != (options.model.input() == InputKind::vectors))
    throw InputError("settings",
                     fmt::format("model.kind = '{}' does not fit the data set '{}', which holds {}",
                                 word(options.model.kind), data.name, images ? "images" : "tokens"));
  if (!images && options.model.mlp.activation != MlpOptions{}.activation)
    throw InputError("settings",
                     fmt::format("model.mlp_activation = '{}' is for model.kind = 'mlp'; a transformer's "
                                 "activation is model.hidden_act",
                                 word(options.model.mlp.activation)));
  options.model.visit([&](auto& own) { fit_(own, options.data, data); });
  resolve_constraint_(options);
  if (options.constraint.lipschitz != 0.0)
    options.model = chosen_for_budget(options.model, options.constraint.choose);
  options.model.visit([](auto& own) { own = std::get<std::decay_t<decltype(own)>>(resolved(own)); });
  options.constraint.choose.clear();  // done: a later version may choose more
  order_named(options.data.order);
  const double noise = options.data.token_noise;
  check_range("data.token_noise", noise >= 0.0 && noise < 1.0, noise, "is a share, at least 0 and below 1");
  if (images && noise > 0.0)
    throw InputError("settings", fmt::format("data.token_noise = {}; images have no tokens", noise));
  const int64_t shift = options.data.shift;
  check_range("data.shift", shift >= 0 && shift < 32, static_cast<double>(shift),
              "is a number of pixels, from 0 to 31");
  if (!images && (shift > 0 || options.data.mirror))
    throw InputError("settings", "data.mirror and data.shift are for images; there are tokens here");
  check_one_of("training.precision", options.training.precision, {"float32", "bfloat16"});
  check_at_least("training.steps", options.training.steps, 1);
  check_at_least("training.accumulate", options.training.accumulate, 1);
  check_range("training.margin", options.training.margin >= 0.0 && std::isfinite(options.training.margin),
              options.training.margin, "a number, 0 or more");
  check_at_least("training.log_every", options.training.log_every, 1);
  check_at_least("training.evaluate_every", options.training.evaluate_every, 0);
  check_at_least("training.checkpoint_every", options.training.checkpoint_every, 0);
  schedule_factor(options.schedule, 0, options.training.steps);
  return options;
}

}  // namespace bridle
