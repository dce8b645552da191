// What a training step works on, and how a recipe becomes it.
#pragma once

#include <memory>

#include "bridle/loader.h"
#include "bridle/train.h"
#include "certify/budget.h"
#include "train/constraint_set.h"

namespace bridle {

// Seconds that steps took, part by part, added to what stands there.
struct StepTimes : PhaseTimes {
  double data = 0.0;
  double optimizer = 0.0;
  double constraint = 0.0;
  double proof = 0.0;  // of the norms, with repairs

  double sum() const { return data + forward + backward + optimizer + constraint + proof; }
};

struct TrainState {
  RunOptions options;
  std::unique_ptr<Model> model;
  std::unique_ptr<ConstraintSet> constraints;
  std::unique_ptr<Budget> budget;  // null where none is named
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Loader> loader;
  int64_t step = 0;            // done
  StepTimes* times = nullptr;  // null: nothing is measured

  Pass pass() const;  // of the step to come
};

// At step 0, with initial weights as the model makes them: ConstraintSet::start_ or a checkpoint comes next. The options
// are resolved ones; those of the state also say in which precision the optimizer multiplies. Throws InputError, before anything
// is allocated, where memory_estimate.h says that it cannot fit.
TrainState make_train_state(const RunOptions& options, std::shared_ptr<const Source> train);

// The budget's caps become those of the constraints, and steps are relative to them. `factors` scale the weights, which
// were inside the old caps, into the new ones.
void use_caps_(TrainState& state, const std::vector<double>& factors = {});

BatchShape batch_shape(const RunOptions& options);
Pass training_pass(const RunOptions& options);         // of step 0
int64_t examples_per_step(const RunOptions& options);  // tokens, or images

}  // namespace bridle
