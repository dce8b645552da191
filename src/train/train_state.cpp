#include "train/train_state.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "base/available_memory.h"
#include "train/memory_estimate.h"
#include "train/options.h"

namespace bridle {
namespace {

std::unique_ptr<Budget> make_budget(const Model& model, const std::vector<Param>& params,
                                    const ConstraintSettings& settings) {
  if (settings.lipschitz == 0.0) return nullptr;
  return std::make_unique<Budget>(model, params,
                                  BudgetOptions{.lipschitz = settings.lipschitz,
                                                .papers = settings.formula == "paper",
                                                .moving = settings.caps == "moving",
                                                .rate = settings.cap_rate,
                                                .embedding_cap = settings.embedding_cap});
}

}  // namespace

Pass training_pass(const RunOptions& options) {
  return {.dtype = options.training.precision == "bfloat16" ? at::kBFloat16 : at::kFloat,
          .training = true,
          .margin = options.training.margin,
          .dropout = {.seed = options.training.seed, .stream = Stream::dropout}};
}

Pass TrainState::pass() const {
  Pass pass = training_pass(options);
  pass.dropout.step = static_cast<uint64_t>(step);
  pass.times = times;
  return pass;
}

TrainState make_train_state(const RunOptions& options, std::shared_ptr<const Source> train) {
  if (const auto available = available_memory(); available && options.device.is_cpu())
    check_memory(options, at::get_num_threads(), *available);
  TrainState state;
  state.options = options;
  if (options.training.precision == "bfloat16") {
    state.options.optimizer.product_dtype = at::kBFloat16;
    if (options.constraint.lipschitz ==
        0.0)  // a budget's caps are too dear to leave room for coarse products
      state.options.constraint.options.product_dtype = at::kBFloat16;
  }
  state.model = make_model(options.model.options(), options.training.seed, options.device);
  state.constraints = std::make_unique<ConstraintSet>(state.model->params(), state.options.constraint);
  const std::vector<Param>& params = state.constraints->params();
  state.budget = make_budget(*state.model, params, options.constraint);
  state.optimizer = std::make_unique<Optimizer>(params, state.options.optimizer);
  if (state.budget) use_caps_(state);
  state.loader =
      std::make_unique<Loader>(std::move(train), LoaderOptions{.batch_size = options.data.batch_size,
                                                               .order = order_named(options.data.order),
                                                               .seed = options.training.seed});
  return state;
}

void use_caps_(TrainState& state, const std::vector<double>& factors) {
  const at::NoGradGuard no_gradients;
  const std::vector<Param>& params = state.constraints->params();
  std::vector<double> rates;
  for (size_t i = 0; i < params.size(); ++i) {
    rates.push_back(is_matrix(params[i].role) ? state.budget->caps()[i] : 1.0);
    if (!factors.empty() && factors[i] != 1.0) params[i].tensor.mul_(factors[i]);
  }
  state.constraints->set_caps(state.budget->caps());
  state.optimizer->set_rate_factors(std::move(rates));
}

BatchShape batch_shape(const RunOptions& options) {
  return {.size = options.data.batch_size,
          .length = options.model.input() == InputKind::tokens ? options.data.sequence_length : 1};
}

int64_t examples_per_step(const RunOptions& options) {
  const BatchShape batch = batch_shape(options);
  return options.training.accumulate * batch.size * batch.length;
}

}  // namespace bridle
