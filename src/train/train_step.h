// The trunk: one training step.
#pragma once

#include "train/train_state.h"

namespace bridle {

struct StepResult {
  double loss = 0.0;
  double accuracy = 0.0;
  double learning_rate = 0.0;
};

// Throws NumericError for a loss that is not finite, before anything has changed; PromiseError where a promised norm cannot be
// established.
StepResult train_step_(TrainState& state);

}  // namespace bridle
