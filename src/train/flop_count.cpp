#include "train/flop_count.h"

#include "constraint/product_flop.h"
#include "optim/plan.h"
#include "train/train_state.h"

namespace bridle {
namespace {

ProductFlop muon_flop(const Param& param, const OptimizerOptions& options) {
  if (plan_steps(param, 1.0, options).rule != UpdateRule::muon) return {};
  return polynomial_flop(param.block_view(), polynomials(options.ns_coefficients),
                         options.product_dtype.value_or(param.tensor.scalar_type()));
}

// As ConstraintSet decides it: with a budget every cap, else those that the method promises.
bool is_proved(const Param& param, const RunOptions& options) {
  const ConstraintSettings& settings = options.constraint;
  if (settings.lipschitz != 0.0) return true;
  const auto constraint = make_constraint(settings.options);
  if (!constraint->uses_cap()) return false;
  const StepInfo step{options.optimizer.lr, options.optimizer.weight_decay,
                      plan_steps(param, 1.0, options.optimizer).update_bound};
  const double cap = cap_of(param.role, settings);
  const auto norm = constraint->guarantee(param, cap, step).norm;
  return norm && *norm <= cap;
}

}  // namespace

double owner_flop(const RunOptions& options, const Param& param) {
  const auto entries = static_cast<double>(param.tensor.numel());
  if (!is_matrix(param.role)) return entries;
  return entries + muon_flop(param, options.optimizer).all +
         make_constraint(options.constraint.options)->product_flop(param.block_view()).all;
}

FlopCount flop_count(const RunOptions& options, const Model& model, const std::vector<Param>& params) {
  const ModelFlop each = model.flop(batch_shape(options, model.shape().input).length);
  const auto examples = static_cast<double>(examples_per_step(options, model.shape().input));
  FlopCount count{.forward = examples * each.forward, .backward = examples * each.backward};
  if (options.training.precision == Precision::bfloat16) count.bfloat16 = count.forward + count.backward;
  const auto constraint = make_constraint(options.constraint.options);
  for (const Param& param : params) {
    if (!is_matrix(param.role)) continue;
    const ProductFlop muon = muon_flop(param, options.optimizer);
    const ProductFlop enforced = constraint->product_flop(param.block_view());
    count.optimizer += muon.all;
    count.constraint += enforced.all;
    count.bfloat16 += muon.bfloat16 + enforced.bfloat16;
    if (is_proved(param, options))
      count.proof +=
          BlockSides(param.block_view()).proof() / static_cast<double>(options.constraint.prove_every);
  }
  return count;
}

}  // namespace bridle
