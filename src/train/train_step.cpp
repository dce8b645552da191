#include "train/train_step.h"

#include <fmt/format.h>

#include <cmath>

#include "base/stopwatch.h"
#include "bridle/error.h"
#include "train/augment.h"
#include "train/token_noise.h"

namespace bridle {
namespace {

Batch next_batch(TrainState& state, int64_t which) {
  Stopwatch watch(state.times);
  Batch batch = state.loader->next();
  const RunOptions& options = state.options;
  const auto number = static_cast<uint64_t>(state.step * options.training.accumulate + which);
  if (options.data.mirror || options.data.shift > 0)
    batch.inputs = augment(batch.inputs, options.data.mirror, options.data.shift,
                           {options.training.seed, Stream::augmentation, number});
  if (options.data.token_noise > 0.0)
    batch.inputs = with_wrong_tokens(batch.inputs, options.data.token_noise, state.model->shape().outputs,
                                     {options.training.seed, Stream::token_noise, number});
  watch.lap(&StepTimes::data);
  return batch;
}

// The mean over `accumulate` batches; none, with the loader back where it was, where `stop` became true before the last of them.
std::optional<LossAndGradients> accumulated(TrainState& state, ActivationStatistics* activations,
                                            const std::atomic<bool>* stop) {
  const int64_t position = state.loader->position();
  Pass pass = state.pass();
  pass.statistics = activations;
  LossAndGradients total = loss_and_gradients(*state.model, next_batch(state, 0), pass);
  const int64_t batches = state.options.training.accumulate;
  for (int64_t i = 1; i < batches; ++i) {
    if (stop != nullptr && stop->load()) {
      state.loader->seek(position);
      return std::nullopt;
    }
    const LossAndGradients more = loss_and_gradients(*state.model, next_batch(state, i), pass);
    total.loss += more.loss;
    total.accuracy += more.accuracy;
    for (size_t j = 0; j < total.gradients.size(); ++j) total.gradients[j].add_(more.gradients[j]);
  }
  if (batches == 1) return total;
  const auto count = static_cast<double>(batches);
  for (at::Tensor& gradient : total.gradients) gradient.div_(count);
  return LossAndGradients{total.loss / count, total.accuracy / count, std::move(total.gradients)};
}

void require_finite(double loss, int64_t step) {
  if (!std::isfinite(loss))
    throw NumericError("train", fmt::format("the loss is {} at step {}; lower optimizer.lr or constrain more",
                                            std::abs(loss), step));  // NaN without its sign
}

}  // namespace

std::optional<StepResult> train_step_(TrainState& state, const std::atomic<bool>* stop) {
  const double factor = schedule_factor(state.options.schedule, state.step, state.options.training.steps);
  const TrainingOptions& training = state.options.training;
  const bool logs = training.log_activations && (state.step + 1) % training.log_every == 0;
  ActivationStatistics activations;
  const auto result = accumulated(state, logs ? &activations : nullptr, stop);
  if (!result) return std::nullopt;
  require_finite(result->loss, state.step);
  Stopwatch watch(state.times);
  const std::vector<StepInfo> steps = state.optimizer->step_(result->gradients, factor, state.step);
  watch.lap(&StepTimes::optimizer);
  state.constraints->enforce_(steps);
  ++state.step;
  watch.lap(&StepTimes::constraint);
  if (state.step % state.options.constraint.prove_every == 0) state.constraints->prove_and_repair_();
  watch.lap(&StepTimes::proof);
  return StepResult{result->loss, result->accuracy, state.options.optimizer.lr * factor,
                    std::move(activations)};
}

}  // namespace bridle
