// Enforce, prove and repair as operators, for bridle.Constraint in Python. Each is told everything about its weight and
// keeps nothing: what a method remembers goes in and out as `state`, a list that is empty or holds one tensor.
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "base/libtorch.h"
#include "base/nearest.h"
#include "base/rounding.h"
#include "bridle/constraint.h"
#include "operators.h"

namespace bridle {
namespace {

using OptionDict = c10::Dict<std::string, double>;

// In place even where the weight requires gradients: a detached tensor shares its memory and its version. `table`: rows that
// stand for themselves. `spectral`: caps are ordinary spectral norms, which are RMS→RMS norms of blocks whose unit is 1.
Param param_of(const Tensor& weight, const std::string& name, bool table, int64_t blocks, bool spectral) {
  Param param{.name = name,
              .tensor = weight.detach(),
              .role = table ? Role::embedding : Role::linear,
              .blocks = blocks};
  if (spectral) {
    param.fan_in = 1;
    param.fan_out = blocks;
  }
  param.block_view();  // throws if it is none
  return param;
}

ConstraintOptions options_of(const std::string& method, const OptionDict& given) {
  ConstraintOptions options{.method = method};
  const std::vector<std::pair<std::string, double*>> numbers = {
      {"spectral_decay", &options.spectral_decay},
      {"floor", &options.floor},
      {"clip_decay", &options.clip_decay},
      {"parseval_strength", &options.parseval_strength}};
  std::vector<std::string> known = {"power_rounds"};
  for (const auto& [key, place] : numbers) known.push_back(key);
  for (const auto& entry : given) {
    if (find_word(entry.key(), known, "constraint", "option") == 0) {
      options.power_rounds = static_cast<int64_t>(entry.value());
      continue;
    }
    *std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) {
       return n.first == entry.key();
     })->second = entry.value();
  }
  return options;
}

std::vector<std::string> constraint_names_op() { return constraint_names(); }

bool needs_update_bound_op(const std::string& method) {
  return make_constraint({.method = method})->needs_update_bound();
}

// The cap must be positive for methods that do not look at it too: the proof does.
void require_cap(const std::string& name, double cap) {
  if (!(cap > 0.0 && std::isfinite(cap)))
    throw InputError("constraint", fmt::format("{}: the cap must be positive and finite, got {}", name, cap));
}

void constraint_start_op(Tensor weight, const std::string& name, bool table, int64_t blocks, bool spectral,
                         const std::string& method, double cap, const OptionDict& options) {
  require_cap(name, cap);
  const Param param = param_of(weight, name, table, blocks, spectral);
  Enforcer enforcer(param, options_of(method, options), cap);
  if (enforcer.prove()) return;  // a run that goes on begins with the very weights that it ended with
  enforcer.start_();
  enforcer.prove_and_repair_();
}

// For a step of which nothing is known: the least one that leads from a weight inside the aim to where this one is now.
StepInfo measured_step(const Param& param, double cap) {
  const auto dtype = param.tensor.scalar_type();
  const double aim = next_down(cap * (1.0 - Enforcer::margin(dtype, dtype)));
  const auto bound = norm_bound(param);  // none: the method finds the NaN and says so
  const double excess = bound ? add_up(bound->to_double(), -aim) : 0.0;
  return {.learning_rate = 1.0, .decay = 0.0, .update_bound = std::max(0.0, excess)};
}

// An update bound of infinity and `measure_reach`: the weight's own norm says how far the step has led.
std::tuple<bool, std::vector<Tensor>> constraint_step_op(Tensor weight, const std::string& name, bool table,
                                                         int64_t blocks, bool spectral,
                                                         const std::string& method, double cap,
                                                         const OptionDict& options, double learning_rate,
                                                         double decay, double update_bound,
                                                         bool measure_reach, at::TensorList state) {
  require_cap(name, cap);
  Enforcer enforcer(param_of(weight, name, table, blocks, spectral), options_of(method, options), cap);
  if (!state.empty()) enforcer.constraint().set_state(state.front());
  const StepInfo told{.learning_rate = learning_rate, .decay = decay, .update_bound = update_bound};
  const bool measures =
      measure_reach && !told.has_update_bound() && enforcer.constraint().needs_update_bound();
  enforcer.enforce_(measures ? measured_step(enforcer.param(), cap) : told);
  const bool repaired = enforcer.prove_and_repair_();
  const Tensor kept = enforcer.constraint().state();
  return {repaired, kept.defined() ? std::vector<Tensor>{kept} : std::vector<Tensor>{}};
}

bool prove_norm_op(const Tensor& weight, const std::string& name, bool table, int64_t blocks, bool spectral,
                   double cap) {
  return prove_norm(param_of(weight, name, table, blocks, spectral), cap);
}

OperatorOptional<double> norm_bound_op(const Tensor& weight, bool table, int64_t blocks, bool spectral) {
  const auto bound = norm_bound(param_of(weight, "weight", table, blocks, spectral));
  return operator_optional(bound ? std::optional(bound->to_double()) : std::nullopt);
}

TORCH_LIBRARY_FRAGMENT(bridle, library) {
  library.def("constraint_names() -> str[]", with_kind<constraint_names_op>());
  library.def("needs_update_bound(str method) -> bool", with_kind<needs_update_bound_op>());
  library.def(
      "constraint_start_(Tensor(a!) weight, str name, bool table, int blocks, bool spectral, str method, "
      "float cap, "
      "Dict(str, float) options) -> ()",
      with_kind<constraint_start_op>());
  library.def(
      "constraint_step_(Tensor(a!) weight, str name, bool table, int blocks, bool spectral, str method, "
      "float cap, "
      "Dict(str, float) options, float learning_rate, float decay, float update_bound, bool measure_reach, "
      "Tensor[] state) "
      "-> (bool, Tensor[])",
      with_kind<constraint_step_op>());
  library.def("prove_norm(Tensor weight, str name, bool table, int blocks, bool spectral, float cap) -> bool",
              with_kind<prove_norm_op>());
  library.def("norm_bound(Tensor weight, bool table=False, int blocks=1, bool spectral=False) -> float?",
              with_kind<norm_bound_op>());
}

}  // namespace
}  // namespace bridle
