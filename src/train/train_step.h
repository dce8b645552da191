// The trunk: one training step.
#pragma once

#include <memory>

#include "bridle/loader.h"
#include "bridle/train.h"
#include "certify/budget.h"
#include "train/constraint_set.h"

namespace bridle {

// What a step works on.
struct TrainState {
  RunOptions options;
  std::unique_ptr<Model> model;
  std::unique_ptr<ConstraintSet> constraints;
  std::unique_ptr<Budget> budget;  // null where none is named
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Loader> loader;
  int64_t step = 0;  // done

  Pass pass() const;  // of the step to come
};

struct StepResult {
  double loss = 0.0;
  double accuracy = 0.0;
  double learning_rate = 0.0;
};

// The budget's caps become those of the constraints, and steps are relative to them. `factors` scale the weights, which
// were inside the old caps, into the new ones.
void use_caps_(TrainState& state, const std::vector<double>& factors = {});

// Throws NumericError for a loss that is not finite, before anything has changed; PromiseError where a promised norm cannot be
// established.
StepResult train_step_(TrainState& state);

}  // namespace bridle
