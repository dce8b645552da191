#include "train/train_step.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "bridle/error.h"

namespace bridle {
namespace {

// The mean over `accumulate` batches.
LossAndGradients accumulated(TrainState& state) {
  Pass pass = state.pass();
  LossAndGradients total = loss_and_gradients(*state.model, state.loader->next(), pass);
  const int64_t batches = state.options.training.accumulate;
  for (int64_t i = 1; i < batches; ++i) {
    const LossAndGradients more = loss_and_gradients(*state.model, state.loader->next(), pass);
    total.loss += more.loss;
    total.accuracy += more.accuracy;
    for (size_t j = 0; j < total.gradients.size(); ++j) total.gradients[j].add_(more.gradients[j]);
  }
  if (batches == 1) return total;
  const auto count = static_cast<double>(batches);
  for (at::Tensor& gradient : total.gradients) gradient.div_(count);
  return {total.loss / count, total.accuracy / count, std::move(total.gradients)};
}

}  // namespace

Pass TrainState::pass() const {
  return {.dtype = options.training.precision == "bfloat16" ? at::kBFloat16 : at::kFloat,
          .training = true,
          .dropout = {
              .seed = options.training.seed, .stream = Stream::dropout, .step = static_cast<uint64_t>(step)}};
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

StepResult train_step_(TrainState& state) {
  const double factor = schedule_factor(state.options.schedule, state.step, state.options.training.steps);
  const LossAndGradients result = accumulated(state);
  if (!std::isfinite(result.loss))
    throw NumericError("train", fmt::format("the loss is {} at step {}; lower optimizer.lr or constrain more",
                                            result.loss, state.step));
  if (state.budget) state.budget->observe(result.gradients);
  const std::vector<StepInfo> steps = state.optimizer->step_(result.gradients, factor, state.step);
  state.constraints->enforce_(steps);
  ++state.step;
  if (state.budget && state.step % state.options.constraint.move_every == 0)
    use_caps_(state, state.budget->move(factor));
  if (state.step % state.options.constraint.prove_every == 0) state.constraints->prove_and_repair_();
  return {result.loss, result.accuracy, state.options.optimizer.lr * factor};
}

}  // namespace bridle
