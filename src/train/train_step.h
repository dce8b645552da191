// The trunk: one training step.
#pragma once

#include <atomic>
#include <optional>

#include "train/train_state.h"

namespace bridle {

struct StepResult {
  double loss = 0.0;
  double accuracy = 0.0;
  double learning_rate = 0.0;
  ActivationStatistics activations = {};  // where this step's are logged
};

// None where `stop` was true before one of the step's slices, on any rank: the step is dropped and the state is as it was before.
// Throws NumericError for a loss that is not finite, before anything has changed; PromiseError where a promised norm cannot be
// established.
std::optional<StepResult> train_step_(TrainState& state, const std::atomic<bool>* stop = nullptr);

}  // namespace bridle
