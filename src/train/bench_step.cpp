#include "train/bench_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantile.h"
#include "base/stopwatch.h"
#include "bridle/error.h"
#include "data/dataset.h"
#include "kernels/peak_flops.h"
#include "train/options.h"
#include "train/random_source.h"
#include "train/train_step.h"

namespace bridle {
namespace {

struct Timed {
  StepTimes parts;
  double seconds = 0.0;
};

TrainState state_for(RunOptions options, bool random_data) {
  // Standardising needs images to take the mean of; nothing that takes time depends on it.
  if (random_data) options.data.standardize = false;
  const DataSet data = random_data ? random_data_set(options) : open_data_set(options.data.name);
  const RunOptions complete = resolved(std::move(options), data);
  TrainState state = make_train_state(
      complete, make_recipe_model(complete),
      random_data ? random_source(complete) : open_split(data, Split::train, source_options(complete)));
  state.constraints->start_();
  return state;
}

Timed timed_step_(TrainState& state) {
  Timed timed;
  state.times = &timed.parts;
  const Timer timer;
  train_step_(state);
  timed.seconds = timer.seconds();
  state.times = nullptr;
  return timed;
}

// A step's share of the proofs: the mean over whole rounds of prove_every steps; where there is none, of one proof more.
double proof_share_(TrainState& state, const std::vector<Timed>& steps) {
  const auto every = static_cast<size_t>(state.options.constraint.prove_every);
  const size_t whole = steps.size() / every * every;
  StepTimes sum;
  if (whole == 0) {
    Stopwatch watch(&sum);
    state.constraints->prove_and_repair_();
    watch.lap(&StepTimes::proof);
    return sum.proof / static_cast<double>(every);
  }
  for (size_t i = steps.size() - whole; i < steps.size(); ++i) sum.proof += steps[i].parts.proof;
  return sum.proof / static_cast<double>(whole);
}

void summarize_(StepBench& result, const std::vector<Timed>& steps, double proof) {
  const auto median_of = [&steps](auto&& value) {
    std::vector<double> values;
    values.reserve(steps.size());
    for (const Timed& step : steps) values.push_back(value(step));
    return median(values);
  };
  const auto part = [&](double StepTimes::*member) {
    return median_of([member](const Timed& step) { return step.parts.*member; });
  };
  result.times.data = part(&StepTimes::data);
  result.times.forward = part(&StepTimes::forward);
  result.times.backward = part(&StepTimes::backward);
  result.times.optimizer = part(&StepTimes::optimizer);
  result.times.constraint = part(&StepTimes::constraint);
  result.times.proof = proof;
  result.other = median_of([](const Timed& step) { return step.seconds - step.parts.sum(); });
  for (const Timed& step : steps) result.seconds.push_back(step.seconds - step.parts.proof + proof);
}

}  // namespace

StepBench bench_step(const RunOptions& options, const BenchOptions& bench) {
  if (bench.steps < 1 || bench.warmup < 0)
    throw InputError(
        "bench", fmt::format("{} steps after {} to warm up; time at least one", bench.steps, bench.warmup));
  StepBench result;
  result.random_data = !data_present(options.data.name);
  RunOptions long_enough = options;  // after its last step the learning rate may be 0, and a constraint idle
  long_enough.training.steps = std::max(options.training.steps, bench.warmup + bench.steps + 1);
  TrainState state = state_for(std::move(long_enough), result.random_data);
  result.options = state.options;
  for (const Param& param : state.model->params()) result.parameters += param.tensor.numel();
  result.examples = examples_per_step(state.options, state.model->shape().input);
  result.flop = flop_count(state.options, *state.model, state.constraints->params());
  const PeakFlops peak;
  for (int64_t i = 0; i < bench.warmup; ++i) train_step_(state);
  std::vector<Timed> steps;
  // The peak's own work drives a model out of the caches: between long steps, but only now and then between short ones.
  constexpr double between_peaks = 0.1;
  double since_peak = 0.0;
  for (int64_t i = 0; i < bench.steps; ++i) {
    steps.push_back(timed_step_(state));
    since_peak += steps.back().seconds;
    if (since_peak < between_peaks && i + 1 < bench.steps) continue;
    since_peak = 0.0;
    result.peak_bfloat16.push_back(peak.bfloat16());
    result.peak_float32.push_back(peak.float32());
  }
  summarize_(result, steps, proof_share_(state, steps));
  return result;
}

}  // namespace bridle
