// A run: when to evaluate, log, save and stop around train_step_.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/train.h"
#include "io/certificate_file.h"
#include "io/metrics.h"
#include "io/model_folder.h"
#include "train/checkpoint.h"
#include "train/kept_metrics.h"
#include "train/options.h"
#include "train/train_step.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Path = std::filesystem::path;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A number for JSON, which has no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

struct Trainer::Parts {
  TrainState state;
  Path folder;
  TrainListener listener;
  std::shared_ptr<const Source> validation;
  std::unique_ptr<MetricsFile> metrics;
  std::optional<int64_t> last_checkpoint;  // the step of the one that was written, or gone on from
  double seconds_before = 0.0;             // trained before the last resume
  Clock::time_point started = Clock::now();
  TrainSummary summary;

  Parts(const RunOptions& options, const DataSet& data, Path where, TrainListener who)
      : state(make_train_state(options, open_split(data, Split::train, source_options(options)))),
        folder(std::move(where)),
        listener(std::move(who)),
        validation(open_split(data, options.data.held_out > 0.0 ? Split::held_out : Split::validation,
                              source_options(options))) {}

  // One process at a time. Throws InputError where another works on the run.
  void lock() {
    make_folder(folder / "state");
    lock_ = std::make_unique<FileLock>(folder / "state" / ".lock", [this] {
      throw InputError(
          "train",
          fmt::format("another process works on {}; wait for it, or choose another --out", folder.string()));
    });
  }
  std::unique_ptr<FileLock> lock_;

  double seconds() const { return seconds_before + seconds_since(started); }

  void begin(const DataSet& data);
  void restore(const Checkpoint& checkpoint);
  void save(bool due);
  EvaluationResult evaluation() const;
  double validation_loss() const { return evaluation().loss; }
  void evaluate_now(bool record);
  void certify_now();
  bool certificate_holds() const;  // of the folder's files as they are
  void note_plain_operators() const;
  void log(const StepResult& result, double rate);
  Json norms() const;
};

namespace {

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

}  // namespace

Trainer::Trainer(const RunOptions& options, const Path& folder, const TrainListener& listener) {
  refuse_run(folder);
  refuse_others_files(folder);
  const DataSet data = open_data_set(options.data.name);
  const RunOptions complete = resolved(options, data);
  parts_ = std::make_unique<Parts>(complete, data, folder, listener);
  parts_->state.constraints->start_();
  parts_->lock();
  refuse_run(folder);  // another process may have begun one since
  write_file(folder / "config.toml", recipe_text(complete));
  parts_->begin(data);
}

Trainer::Trainer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Trainer::~Trainer() = default;

const Model& Trainer::model() const { return *parts_->state.model; }
const RunOptions& Trainer::options() const { return parts_->state.options; }

// With config.toml there is a run. All that comes after it can be made again by a resume.
void Trainer::Parts::begin(const DataSet& data) {
  if (data.has_tokenizer) load_tokenizer(data.folder)->save(folder);
  metrics = std::make_unique<MetricsFile>(folder / "metrics.jsonl", 0);
}

std::unique_ptr<Trainer> Trainer::resume(const Path& folder, const TrainListener& listener,
                                         const std::optional<RunOptions>& recipe) {
  RunOptions options = read_config(folder / "config.toml");
  if (recipe) options.device = recipe->device;
  const DataSet data = open_data_set(options.data.name);
  const RunOptions complete = resolved(options, data);
  if (recipe) {
    const std::string differing =
        differing_settings(resolved(*recipe, open_data_set(recipe->data.name)), complete);
    if (!differing.empty())
      throw InputError("train", fmt::format("this recipe is not that of the run in {}: {}; go on with "
                                            "bridle train --resume {}, or train into another --out",
                                            folder.string(), differing, folder.string()));
  }
  auto parts = std::make_unique<Parts>(complete, data, folder, listener);
  parts->lock();
  std::string trouble;
  const auto checkpoint = read_newest_checkpoint(folder, &trouble);
  if (listener.note && !trouble.empty())
    listener.note(fmt::format("an older checkpoint serves, because {}", trouble));
  if (!checkpoint && std::filesystem::exists(folder / "model.safetensors"))
    throw InputError("train",
                     fmt::format("{} has a model but no checkpoint to go on from; train into another --out",
                                 folder.string()));
  if (checkpoint) {
    parts->restore(*checkpoint);
  } else {
    parts->state.constraints->start_();
    parts->begin(data);
  }
  return std::unique_ptr<Trainer>(new Trainer(std::move(parts)));
}

void Trainer::Parts::restore(const Checkpoint& checkpoint) {
  check_copy(state.options, checkpoint.recipe, folder / "config.toml");
  const KeptMetrics kept = kept_metrics(folder / "metrics.jsonl", checkpoint.metrics_bytes, checkpoint.step);
  if (listener.note && !kept.trouble.empty()) listener.note(kept.trouble);
  metrics = std::make_unique<MetricsFile>(folder / "metrics.jsonl", kept.bytes);
  std::vector<std::pair<std::string, at::Tensor>> weights;
  std::map<std::string, at::Tensor> optimizer;
  std::map<std::string, at::Tensor> constraints;
  std::map<std::string, at::Tensor> budget;
  for (const auto& [name, tensor] : checkpoint.tensors.tensors) {
    const size_t slash = name.find('/');
    const std::string part = name.substr(0, slash);
    const std::string own = name.substr(slash + 1);
    if (part == "model") weights.emplace_back(own, tensor);
    if (part == "optimizer") optimizer[own] = tensor;
    if (part == "constraint") constraints[own] = tensor;
    if (part == "budget") budget[own] = tensor;
  }
  load_weights_(*state.model, weights, "checkpoint");
  state.optimizer->set_state(optimizer);
  state.constraints->set_state(constraints, checkpoint.repairs);
  if (state.budget) {
    state.budget->set_state(budget);
    use_caps_(state);
    if (!state.constraints->all_proved())
      throw InputError("train", "the checkpoint's weights are outside its caps: it is damaged");
  }
  state.loader->seek(checkpoint.loader_position);
  state.step = checkpoint.step;
  last_checkpoint = checkpoint.step;
  seconds_before = checkpoint.seconds;
}

// A save that is not due, because of a signal, must not change what the run would have been: it proves and repairs only for
// the model that it leaves, after the checkpoint.
void Trainer::Parts::save(bool due) {
  if (due) state.constraints->prove_and_repair_();
  metrics->sync();
  Checkpoint checkpoint{.step = state.step,
                        .loader_position = state.loader->position(),
                        .metrics_bytes = metrics->size(),
                        .repairs = state.constraints->repairs(),
                        .seconds = seconds(),
                        .recipe = recipe_text(state.options)};
  for (const Param& param : state.model->params())
    checkpoint.tensors.tensors.emplace_back("model/" + param.name, param.tensor.detach());
  for (const auto& [name, tensor] : state.optimizer->state())
    checkpoint.tensors.tensors.emplace_back("optimizer/" + name, tensor);
  for (const auto& [name, tensor] : state.constraints->state())
    checkpoint.tensors.tensors.emplace_back("constraint/" + name, tensor);
  if (state.budget) {
    for (const auto& [name, tensor] : state.budget->state())
      checkpoint.tensors.tensors.emplace_back("budget/" + name, tensor);
  }
  for (const auto& [name, tensor] : checkpoint.tensors.tensors) {
    if (!tensor.isfinite().all().item<bool>())
      throw NumericError("train", fmt::format("{} is not finite at step {}; the last good checkpoint is kept",
                                              name, state.step));
  }
  write_checkpoint(folder, checkpoint, last_checkpoint);
  last_checkpoint = state.step;
  if (!due) state.constraints->prove_and_repair_();
  std::filesystem::remove(folder / "certificate.json");  // it is about other weights
  write_model(*state.model, folder);
}

// Without the fused pass a step on a CPU takes several times as long.
void Trainer::Parts::note_plain_operators() const {
  if (!listener.note || !state.model->params().front().tensor.is_cpu()) return;
  const std::string why = state.model->why_not_fused(state.pass());
  if (!why.empty()) listener.note("this run takes LibTorch's plain operators: " + why);
}

Json Trainer::Parts::norms() const {
  Json result = Json::object();
  for (const Param& param : state.constraints->params()) {
    if (!is_matrix(param.role)) continue;
    const at::Tensor blocks = param.block_view().detach();
    result[param.name] = number(spectral_norm_estimate(blocks).max().item<double>() / param.unit());
  }
  return result;
}

void Trainer::Parts::log(const StepResult& result, double rate) {
  Json line{{"step", state.step},
            {"loss", number(result.loss)},
            {"accuracy", number(result.accuracy)},
            {"learning_rate", result.learning_rate},
            {"repairs", state.constraints->repairs()},
            {"norms", norms()},
            {state.model->shape().input == InputKind::tokens ? "tokens_per_second" : "images_per_second",
             std::round(rate)},
            {"seconds", std::round(1000.0 * seconds()) / 1000.0}};
  if (state.budget) {
    const std::vector<Param>& params = state.constraints->params();
    for (size_t i = 0; i < params.size(); ++i)
      if (is_matrix(params[i].role)) line["caps"][params[i].name] = state.budget->caps()[i];
    line["bound_of_caps"] = state.budget->bound().to_double();
  }
  metrics->append(line.dump());
}

EvaluationResult Trainer::Parts::evaluation() const {
  return evaluate(*state.model, validation,
                  {.order = {.batch_size = state.options.data.batch_size}, .dtype = state.pass().dtype});
}

// The certificate of the finished model, beside it; none where there is no bound.
void Trainer::Parts::certify_now() {
  if (!summary.bounded) return;
  const CertifiedBound bound = certify(*state.model);
  const bool sound_budget = state.budget && state.options.constraint.formula == "sound";
  if (sound_budget && bound.lipschitz.value > state.options.constraint.lipschitz)
    throw PromiseError("train",
                       fmt::format("the final bound is {}, above the budget of {}: please report this",
                                   bound.lipschitz.value, state.options.constraint.lipschitz));
  const ModelIdentity written = write_model(*state.model, folder, certificate_metadata(bound));
  write_certificate(folder / "certificate.json", certificate_of(written, *state.model, bound));
}

bool Trainer::Parts::certificate_holds() const {
  try {
    check_certificate(folder / "certificate.json", folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Validation, and the bound of the weights as they are.
void Trainer::Parts::evaluate_now(bool record) {
  state.constraints->prove_and_repair_();
  const EvaluationResult result = evaluation();
  summary.validation_loss = result.loss;
  summary.validation_accuracy = result.accuracy;
  Json line{{"step", state.step},
            {"validation_loss", number(result.loss)},
            {"validation_accuracy", result.accuracy},
            {"targets", result.targets}};
  try {
    const auto norms = measured_norms();
    Walk walk(*norms);
    summary.domain = state.model->input_bound(*norms);
    summary.bound = state.model->bound(summary.domain, walk);
    summary.bounded = !summary.bound.lipschitz.is_unbounded();
  } catch (const PromiseError& error) {
    summary.bounded = false;
    if (listener.note) listener.note(error.what());
  }
  line["lipschitz"] = summary.bounded ? number(summary.bound.lipschitz.to_double()) : Json(nullptr);
  line["log10_lipschitz"] = summary.bounded ? number(summary.bound.lipschitz.log10()) : Json(nullptr);
  line["activation"] = summary.bounded ? number(summary.bound.activation.to_double()) : Json(nullptr);
  if (record) metrics->append(line.dump());
}

TrainSummary Trainer::run(const std::atomic<bool>* stop) {
  Parts& parts = *parts_;
  TrainState& state = parts.state;
  const TrainingOptions& training = state.options.training;
  const auto due = [&](int64_t every) { return every > 0 && state.step % every == 0; };
  const auto examples = static_cast<double>(examples_per_step(state.options));
  parts.started = Clock::now();
  const int64_t first = state.step;
  const bool complete = first >= training.steps;  // a finished run, resumed
  int64_t saved = first;
  if (first == 0) parts.note_plain_operators();
  while (state.step < training.steps && !(stop != nullptr && stop->load())) {
    const auto begin = Clock::now();
    const auto step = train_step_(state, stop);
    if (!step) break;
    const StepResult& result = *step;
    const double rate = examples / seconds_since(begin);
    parts.summary.train_loss = result.loss;
    const double left = seconds_since(parts.started) / static_cast<double>(state.step - first) *
                        static_cast<double>(training.steps - state.step);
    if (due(training.log_every)) parts.log(result, rate);
    if (due(training.evaluate_every) && state.step < training.steps) parts.evaluate_now(true);
    if (due(training.checkpoint_every) && state.step < training.steps) {
      parts.save(true);
      saved = state.step;
    }
    if (parts.listener.progress)
      parts.listener.progress({state.step, training.steps, result.loss, result.accuracy, rate, left});
  }
  parts.summary.finished = state.step >= training.steps;
  if (parts.summary.finished) {
    parts.summary.sealed = !state.constraints->all_proved();
    if (parts.summary.sealed) parts.summary.loss_before_seal = parts.validation_loss();
    parts.evaluate_now(!complete);  // seals first
  }
  // A finished run whose certificate holds is left as it is: the certificate may say more than this one would.
  const bool whole = complete && parts.certificate_holds();
  if (complete && !whole)
    write_model(*state.model, parts.folder);
  else if (!complete && (parts.summary.finished || saved != state.step || state.step == 0))
    parts.save(parts.summary.finished);
  if (parts.summary.finished && !whole) parts.certify_now();
  parts.summary.step = state.step;
  if (state.budget) {
    parts.summary.budget = state.options.constraint.lipschitz;
    parts.summary.papers_budget = state.options.constraint.formula == "paper";
    parts.summary.bound_of_caps = state.budget->bound();
  }
  parts.summary.repairs = state.constraints->repairs();
  parts.summary.seconds = parts.seconds();
  return parts.summary;
}

}  // namespace bridle
