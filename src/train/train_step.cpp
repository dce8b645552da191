#include "train/train_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/stopwatch.h"
#include "bridle/error.h"
#include "dist/gather.h"
#include "train/augment.h"
#include "train/token_noise.h"

namespace bridle {
namespace {

using Gradients = WeightExchange::Gradients;
constexpr double kStopped = -1.0;  // in the place of an accuracy

// The number of a slice, from the run's beginning: what is random in it depends on this alone.
uint64_t number_of(const TrainState& state, int64_t slice) {
  return static_cast<uint64_t>(state.step * state.slices() + slice);
}

Batch next_slice(TrainState& state, uint64_t number) {
  Stopwatch watch(state.times);
  Batch batch = state.loader->next();
  const RunOptions& options = state.options;
  if (options.data.mirror || options.data.shift > 0)
    batch.inputs = augment(batch.inputs, options.data.mirror, options.data.shift,
                           {options.training.seed, Stream::augmentation, number});
  if (options.data.token_noise > 0.0)
    batch.inputs = with_wrong_tokens(batch.inputs, options.data.token_noise, state.model->shape().outputs,
                                     {options.training.seed, Stream::token_noise, number});
  watch.lap(&StepTimes::data);
  return batch;
}

bool is_asked(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(); }

// What this rank's slices give: loss and accuracy of each, and sums of gradients. Begins no slice once `stop` is true.
class OwnSlices {
 public:
  OwnSlices(TrainState& state, ActivationStatistics* activations, const std::atomic<bool>* stop)
      : state_(state), activations_(activations), stop_(stop) {
    for (const SliceRange& node : nodes_of(state.slices(), state.own_slices()))
      sums.push_back(sum_in_tree<Gradients>(
          node, [this](const SliceRange& part) { return of_one(part); },
          [](Gradients& sum, Gradients&& more) {
            for (size_t i = 0; i < more.size() && !sum.empty(); ++i) sum[i].add_(more[i]);
          }));
  }

  std::vector<double> numbers;  // loss, accuracy
  std::vector<Gradients> sums;  // one per node of the tree
  bool stopped = false;

 private:
  std::optional<Gradients> of_one(const SliceRange& part) {
    if (part.count > 1) return std::nullopt;
    stopped = stopped || is_asked(stop_);
    LossAndGradients result;
    if (!stopped) {
      const uint64_t number = number_of(state_, part.first);
      Pass pass = state_.pass();
      pass.statistics = activations_;
      pass.dropout.step = number;
      result = loss_and_gradients(*state_.model, next_slice(state_, number), pass);
    }
    numbers.insert(numbers.end(), {result.loss, result.accuracy});
    return std::move(result.gradients);
  }

  TrainState& state_;
  ActivationStatistics* activations_;
  const std::atomic<bool>* stop_;
};

// The largest over all ranks, each of which has seen the same layers.
void include_others(const WeightExchange& exchange, ActivationStatistics& seen) {
  if (exchange.is_alone()) return;
  std::vector<double> own;
  for (const auto& [name, layer] : seen.layers)
    own.insert(own.end(), {layer.largest_rms, layer.largest_entry});
  const std::vector<double> all =
      gather_numbers(exchange.ranks(), own,
                     std::vector<int64_t>(static_cast<size_t>(exchange.ranks().size()), std::ssize(own)));
  const auto layers = seen.layers;
  for (size_t i = 0; i < all.size();)
    for (const auto& [name, layer] : layers) {
      seen.include(name, {.largest_rms = all[i], .largest_entry = all[i + 1]});
      i += 2;
    }
}

// The mean over all slices, with the gradients of the weights that this rank owns; none, with the loader back where it was, where
// any rank was stopped before its last slice.
std::optional<LossAndGradients> mean_of_slices(TrainState& state, ActivationStatistics* activations,
                                               const std::atomic<bool>* stop) {
  const int64_t position = state.loader->position();
  OwnSlices own(state, activations, stop);
  Stopwatch watch(state.times);
  if (own.stopped) own.numbers.back() = kStopped;
  const std::vector<double> numbers = state.exchange->numbers_of_all(own.numbers, 2);
  if (std::find(numbers.begin(), numbers.end(), kStopped) != numbers.end()) {
    state.loader->seek(position);
    return std::nullopt;
  }
  LossAndGradients mean;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    mean.loss += numbers[i];
    mean.accuracy += numbers[i + 1];
  }
  const auto count = static_cast<double>(state.slices());
  mean.loss /= count;
  mean.accuracy /= count;
  if (activations != nullptr) include_others(*state.exchange, *activations);
  mean.gradients = state.exchange->sum_at_owners(std::move(own.sums));
  for (at::Tensor& gradient : mean.gradients)
    if (gradient.defined() && count > 1.0) gradient.div_(count);
  watch.lap(&StepTimes::exchange);
  return mean;
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
  const auto result = mean_of_slices(state, logs ? &activations : nullptr, stop);
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
  state.exchange->share_weights_();
  watch.lap(&StepTimes::exchange);
  return StepResult{result->loss, result->accuracy, state.options.optimizer.lr * factor,
                    std::move(activations)};
}

}  // namespace bridle
