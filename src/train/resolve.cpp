// What a recipe leaves to the data and to Bridle is filled in, and what cannot be is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/error.h"
#include "data/image_source.h"
#include "train/options.h"

namespace bridle {
namespace {

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

void check_at_least(const char* key, int64_t value, int64_t least) {
  if (value < least)
    throw InputError("settings", fmt::format("{} must be at least {}, got {}", key, least, value));
}

void fit_(MlpOptions& model, const DataOptions& options, const DataSet& data) {
  const int64_t inputs = data.vectors ? data.vectors->inputs : 3072;
  if (model.layer_sizes.empty()) {
    model.layer_sizes = {inputs};
    model.layer_sizes.insert(model.layer_sizes.end(), model.hidden_sizes.begin(), model.hidden_sizes.end());
    model.layer_sizes.push_back(data.outputs);
  }
  if (model.layer_sizes.front() != inputs || model.layer_sizes.back() != data.outputs)
    throw InputError("settings",
                     fmt::format("model.layer_sizes go from {} to {}; the data has {} {} and {} {}",
                                 model.layer_sizes.front(), model.layer_sizes.back(), inputs,
                                 data.vectors ? "inputs" : "pixels", data.outputs,
                                 data.vectors && data.vectors->regression ? "targets" : "classes"));
  if (data.vectors)
    model.input_bound = data.vectors->input_bound;
  else
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
  if (!good) throw InputError("settings", fmt::format("{} must be {}, got {}", key, range, value));
}

// A budget constrains keys and values head by head unless told otherwise, and proves every step.
void resolve_constraint_(RunOptions& options) {
  ConstraintSettings& c = options.constraint;
  const bool budget = c.lipschitz != 0.0;
  check_range("constraint.lipschitz", c.lipschitz >= 0.0 && std::isfinite(c.lipschitz), c.lipschitz,
              "positive, or 0 for no budget");
  if (c.heads == HeadBlocks::automatic)
    c.heads = budget && c.formula == BoundFormula::sound ? HeadBlocks::kv : HeadBlocks::whole;
  if (budget && c.formula == BoundFormula::paper && c.heads != HeadBlocks::whole)
    throw InputError(
        "settings",
        fmt::format(
            "constraint.heads = '{}' with constraint.formula = 'paper': the formula knows norms of whole "
            "matrices only; use whole",
            word(c.heads)));
  const auto method =
      make_constraint(c.options);  // throws, naming the nearest, where there is no such method
  check_range("constraint.sigma_max", c.sigma_max > 0.0 && std::isfinite(c.sigma_max), c.sigma_max,
              "positive and finite");
  check_range("constraint.head_sigma_max", c.head_sigma_max >= 0.0 && std::isfinite(c.head_sigma_max),
              c.head_sigma_max, "positive, or 0 for sigma_max");
  check_range("constraint.coupling_room", c.coupling_room >= 1.0 && std::isfinite(c.coupling_room),
              c.coupling_room, "at least 1: with less, caps would not be kept");
  constexpr int64_t most_rounds = 1'000'000;
  check_range("constraint.power_rounds", c.options.power_rounds >= 1 && c.options.power_rounds <= most_rounds,
              static_cast<double>(c.options.power_rounds), "from 1 to 1000000");
  check_range("constraint.embedding_cap", c.embedding_cap >= 0.0, c.embedding_cap, "positive, or 0 for none");
  check_at_least("constraint.prove_every", c.prove_every, 1);
  if (options.optimizer.method != OptimizerMethod::muon && method->needs_update_bound())
    throw InputError("settings", fmt::format("constraint.method = '{}' needs updates of known norm, which "
                                             "optimizer.method = '{}' does not have; use "
                                             "muon, or a constraint such as normalize",
                                             c.options.method, word(options.optimizer.method)));
  if (budget && !method->uses_cap())
    throw InputError("settings",
                     fmt::format("constraint.method = '{}' has no cap to keep a budget with; use hard_cap or "
                                 "another that has",
                                 c.options.method));
  if (budget) c.prove_every = 1;
}

void check_data(const DataOptions& data, InputKind input) {
  const bool tokens = input == InputKind::tokens;
  check_range("data.token_noise", data.token_noise >= 0.0 && data.token_noise < 1.0, data.token_noise,
              "at least 0 and below 1");
  if (!tokens && data.token_noise > 0.0)
    throw InputError(
        "settings",
        fmt::format("data.token_noise must be 0 for images, which have no tokens; got {}", data.token_noise));
  check_range("data.shift", data.shift >= 0 && data.shift < 32, static_cast<double>(data.shift),
              "from 0 to 31 pixels");
  if (tokens && (data.shift > 0 || data.mirror))
    throw InputError("settings",
                     "data.mirror must be false and data.shift 0 for tokens: they are for images");
}

void check_slices(const RunOptions& options) {
  const int64_t slices = options.training.slices, batch = options.data.batch_size;
  check_at_least("training.slices", slices, 1);
  if (batch % slices != 0)
    throw InputError("settings",
                     fmt::format("training.slices must divide data.batch_size = {}, got {}", batch, slices));
}

void check_training(const TrainingOptions& training) {
  check_at_least("training.steps", training.steps, 1);
  check_at_least("training.accumulate", training.accumulate, 1);
  check_range("training.margin", training.margin >= 0.0 && std::isfinite(training.margin), training.margin,
              "0 or more");
  check_at_least("training.log_every", training.log_every, 1);
  check_at_least("training.evaluate_every", training.evaluate_every, 0);
  check_at_least("training.evaluate_tokens", training.evaluate_tokens, 0);
  check_at_least("training.checkpoint_every", training.checkpoint_every, 0);
  if (std::count(training.sinks.begin(), training.sinks.end(), SinkKind::jsonl) == 0)
    throw InputError("settings",
                     "training.sinks must hold \"jsonl\": a resumed run goes on with it; add it to the list");
}

// All but the model and the data set.
void resolve_training_(RunOptions& options, InputKind input) {
  resolve_constraint_(options);
  check_data(options.data, input);
  check_training(options.training);
  check_slices(options);
  schedule_factor(options.schedule, 0, options.training.steps);
}

}  // namespace

RunOptions resolved_for(RunOptions options, InputKind input) {
  resolve_training_(options, input);
  return options;
}

RunOptions resolved(RunOptions options, const DataSet& data) {
  const bool images = data.kind == DataKind::images || data.kind == DataKind::vectors;
  if (data.kind == DataKind::vectors && (options.data.standardize || options.data.mirror ||
                                         options.data.shift > 0 || options.data.random_labels != 0.0))
    throw InputError(
        "settings",
        fmt::format("data.standardize, mirror, shift and random_labels must be off for '{}': they are "
                    "for images in CIFAR-10's layout",
                    data.name));
  if (data.vectors && data.vectors->regression && options.training.margin != 0.0)
    throw InputError("settings",
                     fmt::format("training.margin must be 0 for regression, which has no classes, got {}",
                                 options.training.margin));
  if (images != (options.model.input() == InputKind::vectors))
    throw InputError("settings",
                     fmt::format("model.kind = '{}' does not fit the data set '{}', which holds {}",
                                 word(options.model.kind), data.name,
                                 data.vectors ? "vectors"
                                 : images     ? "images"
                                              : "tokens"));
  if (!images && options.model.mlp.activation != MlpOptions{}.activation)
    throw InputError("settings",
                     fmt::format("model.mlp_activation = '{}' is for model.kind = 'mlp'; a transformer's "
                                 "activation is model.hidden_act",
                                 word(options.model.mlp.activation)));
  if (options.training.grow_windows && (images || options.model.transformer.attention_window == 0))
    throw InputError("settings", "training.grow_windows needs a transformer with model.attention_window");
  options.model.visit([&](auto& own) { fit_(own, options.data, data); });
  resolve_training_(options, options.model.input());
  options.model.visit([](auto& own) { own = std::get<std::decay_t<decltype(own)>>(resolved(own)); });
  return options;
}

}  // namespace bridle
