#include "train/train_state.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/available_memory.h"
#include "bridle/error.h"
#include "io/model_folder.h"
#include "train/memory_estimate.h"
#include "train/options.h"

namespace bridle {
namespace {

// The budget's caps become those of the constraints, and steps are relative to them.
void use_caps_(TrainState& state) {
  const std::vector<Param>& params = state.constraints->params();
  std::vector<double> rates;
  for (size_t i = 0; i < params.size(); ++i)
    rates.push_back(is_matrix(params[i].role) ? state.budget->caps[i] : 1.0);
  state.constraints->set_caps(state.budget->caps);
  state.optimizer->set_rate_factors(std::move(rates));
}

at::ScalarType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::float32:
      break;
    case Precision::bfloat16:
      return at::kBFloat16;
  }
  return at::kFloat;
}

}  // namespace

Pass training_pass(const RunOptions& options) {
  return {.dtype = dtype_of(options.training.precision),
          .training = true,
          .margin = options.training.margin,
          .dropout = {.seed = options.training.seed, .stream = Stream::dropout}};
}

double window_share(const TrainingOptions& training, int64_t step) {
  return training.grow_windows ? static_cast<double>(step) / static_cast<double>(training.steps) : 1.0;
}

Pass TrainState::pass() const {
  Pass pass = training_pass(options);
  pass.dropout.step = static_cast<uint64_t>(step);
  pass.window_share = window_share(options.training, step);
  pass.times = times;
  return pass;
}

std::unique_ptr<Model> make_recipe_model(const RunOptions& options) {
  if (const auto available = available_memory(); available && options.device.is_cpu())
    check_memory(options, at::get_num_threads(), *available);
  return make_model(options.model.options(), options.training.seed, options.device);
}

TrainState make_train_state(const RunOptions& options, std::unique_ptr<Model> model,
                            std::shared_ptr<const Source> train) {
  TrainState state;
  state.options = options;
  if (options.training.precision == Precision::bfloat16) {
    state.options.optimizer.product_dtype = at::kBFloat16;
    if (options.constraint.lipschitz ==
        0.0)  // a budget's caps are too dear to leave room for coarse products
      state.options.constraint.options.product_dtype = at::kBFloat16;
  }
  state.model = std::move(model);
  state.constraints = std::make_unique<ConstraintSet>(state.model->params(), state.options.constraint);
  const std::vector<Param>& params = state.constraints->params();
  state.optimizer = std::make_unique<Optimizer>(params, state.options.optimizer);
  const ConstraintSettings& constraint = options.constraint;
  if (constraint.lipschitz != 0.0) {
    state.budget = budget_for(*state.model, params,
                              {.lipschitz = constraint.lipschitz,
                               .papers = constraint.formula == BoundFormula::paper,
                               .embedding_cap = constraint.embedding_cap});
    use_caps_(state);
  }
  state.loader =
      std::make_unique<Loader>(std::move(train), LoaderOptions{.batch_size = options.data.batch_size,
                                                               .order = options.data.order,
                                                               .seed = options.training.seed});
  return state;
}

Checkpoint checkpoint_of(const TrainState& state) {
  Checkpoint checkpoint{.step = state.step,
                        .loader_position = state.loader->position(),
                        .repairs = state.constraints->repairs()};
  auto& tensors = checkpoint.tensors.tensors;
  for (const Param& param : state.model->params())
    tensors.emplace_back("model/" + param.name, param.tensor.detach());
  const auto add = [&tensors](const std::string& part, const std::map<std::string, at::Tensor>& kept) {
    for (const auto& [name, tensor] : kept) tensors.emplace_back(part + name, tensor);
  };
  add("optimizer/", state.optimizer->state());
  add("constraint/", state.constraints->state());
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.isfinite().all().item<bool>())
      throw NumericError("train", fmt::format("{} is not finite at step {}; the last good checkpoint is kept",
                                              name, state.step));
  }
  return checkpoint;
}

void restore_(TrainState& state, const Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, at::Tensor>> weights;
  std::map<std::string, std::map<std::string, at::Tensor>> parts;
  for (const auto& [name, tensor] : checkpoint.tensors.tensors) {
    const size_t slash = name.find('/');
    const std::string part = name.substr(0, slash), own = name.substr(slash + 1);
    if (part == "model")
      weights.emplace_back(own, tensor);
    else
      parts[part][own] = tensor;
  }
  load_weights_(*state.model, weights, "checkpoint");
  state.optimizer->set_state(parts["optimizer"]);
  state.constraints->set_state(parts["constraint"], checkpoint.repairs);
  if (state.budget && !state.constraints->all_proved())
    throw InputError("train", "the checkpoint's weights are outside its caps: it is damaged");
  state.loader->seek(checkpoint.loader_position);
  state.step = checkpoint.step;
}

BatchShape batch_shape(const RunOptions& options, InputKind input) {
  return {.size = options.data.batch_size,
          .length = input == InputKind::tokens ? options.data.sequence_length : 1};
}

int64_t examples_per_step(const RunOptions& options, InputKind input) {
  const BatchShape batch = batch_shape(options, input);
  return options.training.accumulate * batch.size * batch.length;
}

}  // namespace bridle
