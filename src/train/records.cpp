#include "train/records.h"

#include <cmath>
#include <limits>

#include "bridle/linalg.h"

namespace bridle {
namespace {

// One number per matrix.
template <class Number>
Metric::PerWeight per_matrix(const std::vector<Param>& params, const Number& number) {
  Metric::PerWeight all;
  for (size_t i = 0; i < params.size(); ++i)
    if (is_matrix(params[i].role)) all.emplace_back(params[i].name, number(i));
  return all;
}

// "largest_rms" and "largest_entry" of the activations after every layer, where they were measured.
void add_activations(MetricRecord& record, const ActivationStatistics& seen) {
  if (seen.layers.empty()) return;
  Metric::PerWeight rms, entries;
  for (const auto& [name, layer] : seen.layers) {
    rms.emplace_back(name, layer.largest_rms);
    entries.emplace_back(name, layer.largest_entry);
  }
  record.metrics.push_back({"largest_rms", std::move(rms)});
  record.metrics.push_back({"largest_entry", std::move(entries)});
}

}  // namespace

MetricRecord step_record(const TrainState& state, const StepResult& result, const StepClock& clock) {
  const std::vector<Param>& params = state.constraints->params();
  const auto norm = [&](size_t i) {
    const at::Tensor blocks = params[i].block_view().detach();
    return spectral_norm_estimate(blocks).max().item<double>() / params[i].unit();
  };
  const bool tokens = state.model->shape().input == InputKind::tokens;
  MetricRecord record{
      .step = state.step,
      .metrics = {{"loss", result.loss},
                  {"accuracy", result.accuracy},
                  {"learning_rate", result.learning_rate},
                  {"repairs", state.constraints->repairs()},
                  {"norms", per_matrix(params, norm)},
                  {tokens ? "tokens_per_second" : "images_per_second", std::round(clock.rate)},
                  {"seconds", std::round(1000.0 * clock.seconds) / 1000.0}}};
  if (state.budget) {
    record.metrics.push_back({"caps", per_matrix(params, [&](size_t i) { return state.budget->caps[i]; })});
    record.metrics.push_back({"bound_of_caps", state.budget->bound.to_double()});
  }
  add_activations(record, result.activations);
  return record;
}

MetricRecord evaluation_record(int64_t step, const EvaluationResult& result,
                               const std::optional<CertifiedBound>& bound) {
  constexpr double none = std::numeric_limits<double>::infinity();
  MetricRecord record{
      .step = step,
      .metrics = {
          {"validation_loss", result.loss},
          {"validation_accuracy", result.accuracy},
          {"targets", result.targets},
          {"lipschitz", bound ? bound->lipschitz.value : none},
          {"log10_lipschitz", bound ? bound->lipschitz.log10 : none},
          {"activation", bound && !bound->layers.empty() ? bound->layers.back().activation.value : none}}};
  add_activations(record, result.statistics);
  return record;
}

}  // namespace bridle
