// What a run measures, as records for its sinks: the keys of metrics.jsonl (docs/reference/training.md).
#pragma once

#include <optional>

#include "bridle/certify.h"
#include "bridle/metrics.h"
#include "train/train_state.h"
#include "train/train_step.h"

namespace bridle {

struct StepClock {
  double rate = 0.0;     // tokens or images a second
  double seconds = 0.0;  // trained so far
};

// After a step: loss, accuracy, norms (by power iteration, from below), and with a budget the caps in force.
MetricRecord step_record(const TrainState& state, const StepResult& result, const StepClock& clock);

// After an evaluation; without a bound its numbers are none.
MetricRecord evaluation_record(int64_t step, const EvaluationResult& result,
                               const std::optional<CertifiedBound>& bound);

}  // namespace bridle
