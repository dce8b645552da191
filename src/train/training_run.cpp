#include "train/training_run.h"

#include <fmt/format.h>

#include <utility>

#include "bridle/error.h"
#include "io/certificate_file.h"
#include "io/model_folder.h"
#include "train/checkpoint.h"
#include "train/kept_metrics.h"
#include "train/options.h"
#include "train/records.h"
#include "train/tensorboard_sink.h"
#include "train/train_step.h"

namespace bridle {
TrainingRun::TrainingRun(Setup setup)
    : state_(make_train_state(setup.options, std::move(setup.parts.model), std::move(setup.parts.train),
                              std::move(setup.ranks))),
      validation_(std::move(setup.parts.validation)),
      folder_(std::move(setup.folder)),
      config_(std::move(setup.config)),
      listener_(std::move(setup.listener)) {}

void TrainingRun::lock() {
  if (!leads()) return;
  make_folder(folder_ / "state");
  lock_ = std::make_unique<FileLock>(folder_ / "state" / ".lock", [this] {
    throw InputError("train", fmt::format("another process works on {}; wait for it, or choose another --out",
                                          folder_.string()));
  });
}

void TrainingRun::begin() {
  if (!leads()) return;
  add_sinks();
  lines_ = std::make_unique<JsonLines>(folder_ / "metrics.jsonl", 0);
}

// Those of the recipe besides metrics.jsonl.
void TrainingRun::add_sinks() {
  for (const SinkKind kind : state_.options.training.sinks) {
    switch (kind) {
      case SinkKind::jsonl:
        break;
      case SinkKind::tensorboard:
        listener_.sinks.push_back(std::make_shared<TensorBoardSink>(folder_, *state_.model));
        break;
    }
  }
}

bool TrainingRun::go_on() {
  const std::optional<Checkpoint> checkpoint = leads() ? checkpoint_to_go_on_from() : std::nullopt;
  if (!state_.exchange->any(checkpoint.has_value())) return false;
  restore_(state_, checkpoint.value_or(Checkpoint{}));
  last_checkpoint_ = state_.step;
  return true;
}

std::optional<Checkpoint> TrainingRun::checkpoint_to_go_on_from() {
  std::string trouble;
  auto checkpoint = read_newest_checkpoint(folder_, &trouble);
  if (!trouble.empty()) note(fmt::format("an older checkpoint serves, because {}", trouble));
  if (!checkpoint && std::filesystem::exists(folder_ / "model.safetensors"))
    throw InputError("train",
                     fmt::format("{} has a model but no checkpoint to go on from; train into another --out",
                                 folder_.string()));
  if (!checkpoint) return std::nullopt;
  check_copy(state_.options, checkpoint->recipe, folder_ / "config.toml");
  const KeptMetrics kept =
      kept_metrics(folder_ / "metrics.jsonl", checkpoint->metrics_bytes, checkpoint->step);
  if (!kept.trouble.empty()) note(kept.trouble);
  lines_ = std::make_unique<JsonLines>(folder_ / "metrics.jsonl", kept.bytes);
  seconds_before_ = checkpoint->seconds;
  add_sinks();
  for (const auto& sink : listener_.sinks) sink->resume_after(checkpoint->step);
  return checkpoint;
}

TrainSummary TrainingRun::run(const std::atomic<bool>* stop) {
  timer_.restart();
  const bool complete = state_.step >= state_.options.training.steps;  // a finished run, resumed
  if (state_.step == 0) note_plain_operators();
  train(stop);
  summary_.finished = state_.step >= state_.options.training.steps;
  if (summary_.finished)
    finish(complete);
  else if (last_checkpoint_ != state_.step || state_.step == 0)
    save_stopped();
  summarize();
  return summary_;
}

void TrainingRun::train(const std::atomic<bool>* stop) {
  const TrainingOptions& training = state_.options.training;
  const auto examples = static_cast<double>(examples_per_step(state_.options, state_.model->shape().input));
  const int64_t first = state_.step;
  while (state_.step < training.steps) {
    const Timer step;
    const auto result = train_step_(state_, stop);
    if (!result) break;
    const double rate = examples / step.seconds();
    const double left = timer_.seconds() / static_cast<double>(state_.step - first) *
                        static_cast<double>(training.steps - state_.step);
    summary_.train_loss = result->loss;
    if (leads() && due(training.log_every))
      record(step_record(state_, *result, {.rate = rate, .seconds = seconds()}));
    if (state_.step < training.steps) evaluate_or_save_where_due();
    if (listener_.progress)
      listener_.progress({state_.step, training.steps, result->loss, result->accuracy, rate, left});
  }
}

void TrainingRun::evaluate_or_save_where_due() {
  const bool evaluates = due(state_.options.training.evaluate_every);
  const bool saves = due(state_.options.training.checkpoint_every);
  if (evaluates || saves) prove_and_repair_(state_);
  if (evaluates || saves) state_.exchange->check_weights();
  if (evaluates) record(evaluation_record(state_.step, measure(), summary_.bound));
  if (!saves) return;
  save_checkpoint();
  write_result(std::nullopt);
}

// One evaluation and one certification: of them are the last metrics, the summary and the certificate.
void TrainingRun::finish(bool complete) {
  summary_.sealed = !state_.constraints->all_proved();
  if (summary_.sealed) {
    summary_.loss_before_seal = validation_result().loss;
    prove_and_repair_(state_);
  }
  const EvaluationResult result = measure();
  if (!complete) {
    record(evaluation_record(state_.step, result, summary_.bound));
    save_checkpoint();
  } else if (leads() && certificate_holds()) {
    return;  // left as it is: the certificate may say more than this one would
  }
  write_result(keeps_budget() ? summary_.bound : std::nullopt);
  if (!keeps_budget())
    throw PromiseError("train",
                       fmt::format("the final bound is {}, above the budget of {}: please report this",
                                   summary_.bound->lipschitz.value, state_.options.constraint.lipschitz));
}

bool TrainingRun::keeps_budget() const {
  const ConstraintSettings& constraint = state_.options.constraint;
  const bool sound_budget = state_.budget && constraint.formula == BoundFormula::sound;
  return !sound_budget || !summary_.bound || summary_.bound->lipschitz.value <= constraint.lipschitz;
}

// A save that is not due, because of a signal, must not change what the run would have been: it proves and repairs only for
// the model that it leaves, after the checkpoint.
void TrainingRun::save_stopped() {
  save_checkpoint();
  prove_and_repair_(state_);
  write_result(std::nullopt);
}

void TrainingRun::save_checkpoint() {
  Checkpoint checkpoint = checkpoint_of(state_);
  const std::optional<int64_t> before = std::exchange(last_checkpoint_, state_.step);
  if (!leads()) return;
  lines_->sync();
  for (const auto& sink : listener_.sinks) sink->sync();
  checkpoint.metrics_bytes = lines_->size();
  checkpoint.seconds = seconds();
  checkpoint.recipe = config_;
  write_checkpoint(folder_, checkpoint, before);
}

// The model, and beside it its certificate where there is a bound and options that say what the model is.
void TrainingRun::write_result(const std::optional<CertifiedBound>& bound) {
  if (!leads()) return;
  const Model& model = *state_.model;
  std::filesystem::remove(folder_ / "certificate.json");  // it is about other weights
  if (!model.options()) {
    write_weights(model, folder_);
  } else if (!bound) {
    write_model(model, folder_);
  } else {
    const ModelIdentity written = write_model(model, folder_, certificate_metadata(*bound));
    write_certificate(folder_ / "certificate.json", certificate_of(written, model, *bound));
  }
}

bool TrainingRun::certificate_holds() const {
  try {
    check_certificate(folder_ / "certificate.json", folder_);
    return true;
  } catch (const Error&) {
    return false;
  }
}

EvaluationResult TrainingRun::validation_result() const {
  const TrainingOptions& training = state_.options.training;
  const Pass pass = state_.pass();
  return evaluate(
      *state_.model, validation_,
      {.order = {.batch_size = state_.options.data.batch_size, .targets = training.evaluate_tokens},
       .dtype = pass.dtype,
       .statistics = training.log_activations,
       .window_share = pass.window_share,
       .ranks = &state_.exchange->ranks()});
}

EvaluationResult TrainingRun::measure() {
  EvaluationResult result = validation_result();
  summary_.validation_loss = result.loss;
  summary_.validation_accuracy = result.accuracy;
  summary_.bound.reset();
  if (!leads()) return result;  // others have the same weights, and wait
  try {
    summary_.bound = certify(*state_.model);
  } catch (const PromiseError& error) {
    if (!told_no_bound_) note(error.what());
    told_no_bound_ = true;
  }
  return result;
}

void TrainingRun::record(const MetricRecord& record) {
  if (!leads()) return;
  lines_->write(record);
  for (const auto& sink : listener_.sinks) sink->write(record);
}

void TrainingRun::note(const std::string& text) const {
  if (listener_.note) listener_.note(text);
}

// Without the fused pass a step on a CPU takes several times as long.
void TrainingRun::note_plain_operators() const {
  if (!state_.model->params().front().tensor.is_cpu()) return;
  const std::string why = state_.model->why_not_fused(state_.pass());
  if (!why.empty()) note("this run takes LibTorch's plain operators: " + why);
}

void TrainingRun::summarize() {
  summary_.step = state_.step;
  if (state_.budget) {
    summary_.budget = state_.options.constraint.lipschitz;
    summary_.papers_budget = state_.options.constraint.formula == BoundFormula::paper;
    summary_.bound_of_caps = state_.budget->bound;
  }
  summary_.repairs = state_.constraints->repairs();
  summary_.seconds = seconds();
}

}  // namespace bridle
