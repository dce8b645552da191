// What a training step works on, and how a recipe becomes it.
#pragma once

#include <memory>
#include <optional>

#include "bridle/loader.h"
#include "bridle/train.h"
#include "certify/budget.h"
#include "dist/weight_exchange.h"
#include "train/checkpoint.h"
#include "train/constraint_set.h"

namespace bridle {

// Seconds that steps took, part by part, added to what stands there.
struct StepTimes : PhaseTimes {
  double data = 0.0;
  double optimizer = 0.0;
  double constraint = 0.0;
  double proof = 0.0;     // of the norms, with repairs
  double exchange = 0.0;  // with other ranks

  double sum() const { return data + forward + backward + optimizer + constraint + proof + exchange; }
};

struct TrainState {
  RunOptions options;
  std::unique_ptr<Model> model;
  std::unique_ptr<WeightExchange> exchange = std::make_unique<WeightExchange>();  // alone
  std::unique_ptr<ConstraintSet> constraints;
  std::optional<Budget> budget;  // none where none is named
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Loader> loader;
  int64_t step = 0;            // done
  StepTimes* times = nullptr;  // null: nothing is measured

  Pass pass() const;              // of the step to come
  int64_t slices() const;         // of a step
  SliceRange own_slices() const;  // of these, this rank's
};

// The model of resolved options, with initial weights. Throws InputError, before anything is allocated, where memory_estimate.h says
// that training it cannot fit.
std::unique_ptr<Model> make_recipe_model(const RunOptions& options);

// At step 0, with the model's weights as they are: start_ or restore_ comes next. The options are resolved ones; those of the state
// also say in which precision the optimizer multiplies. `ranks`: those that train together; null: alone.
TrainState make_train_state(const RunOptions& options, std::unique_ptr<Model> model,
                            std::shared_ptr<const Source> train, std::shared_ptr<Ranks> ranks = nullptr);

// Brings the initial weights inside their caps.
void start_(TrainState& state);

// Besides what train_step_ does: proves what is promised, as the weights are, and repairs it.
void prove_and_repair_(TrainState& state);

// All of the state that outlives the process, and back. Throw NumericError where a tensor is not finite, InputError where
// a checkpoint is of another model or its weights are outside its caps. Of several ranks, rank 0 has it and gives it, with any number
// of them; the checkpoint of others holds nothing, and is not read.
Checkpoint checkpoint_of(const TrainState& state);
void restore_(TrainState& state, const Checkpoint& checkpoint);

BatchShape batch_shape(const RunOptions& options, InputKind input);
Pass training_pass(const RunOptions& options);                          // of step 0
int64_t examples_per_step(const RunOptions& options, InputKind input);  // tokens, or images

}  // namespace bridle
