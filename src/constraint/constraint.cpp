// What all methods share: names, checks, and the way from a Param to the matrices that a method sees.
#include "bridle/constraint.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "base/nearest.h"
#include "bridle/error.h"
#include "constraint/methods.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

struct Method {
  const char* name;
  const char* papers_name;  // what the paper's code calls it
  MakeConstraint make;
};

constexpr std::array<Method, 14> kMethods = {{
    {"none", "none", make_none},
    {"weight_decay", "wd", make_weight_decay},
    {"spectral_weight_decay", "spec_wd", make_spectral_weight_decay},
    {"normalize", "normalize", make_normalize_by_bound},
    {"normalize_estimate", "spec_normalize", make_normalize_by_estimate},
    {"stiefel", "orthogonal", make_stiefel},
    {"hammer", "spec_hammer", make_hammer},
    {"soft_cap", "soft_cap", make_soft_cap},
    {"hard_cap", "hard_cap", make_hard_cap},
    {"hard_cap_polynomial", "hard_cap_polynomial", make_hard_cap_polynomial},
    {"hard_cap_svd", "pure_svd", make_hard_cap_svd},
    {"clip", "clip", make_clip},
    {"clipped_weight_decay", "clipped_weight_decay", make_clipped_weight_decay},
    {"parseval", "parseval", make_parseval},
}};

}  // namespace

std::vector<std::string> constraint_names() {
  std::vector<std::string> names;
  names.reserve(kMethods.size());
  for (const Method& method : kMethods) names.emplace_back(method.name);
  return names;
}

std::unique_ptr<Constraint> make_constraint(const ConstraintOptions& options) {
  for (const Method& method : kMethods) {
    if (options.method == method.name || options.method == method.papers_name) return method.make(options);
  }
  const auto names = constraint_names();
  throw InputError("constraint", fmt::format("no method '{}'; did you mean '{}'? Known: {}", options.method,
                                             nearest_word(options.method, names), fmt::join(names, ", ")));
}

void Constraint::check(const Param& param, double sigma_max, const StepInfo& step) const {
  const auto refuse = [&](const std::string& message) {
    throw InputError(name(), fmt::format("{}: {}", param.name, message));
  };
  if (uses_cap() && !(sigma_max > 0.0 && std::isfinite(sigma_max))) {
    refuse(fmt::format("sigma_max must be positive and finite, got {}", sigma_max));
  }
  const bool step_makes_sense = step.learning_rate >= 0.0 && std::isfinite(step.learning_rate) &&
                                step.decay >= 0.0 && std::isfinite(step.decay) && step.update_bound >= 0.0;
  if (!step_makes_sense) {
    refuse(fmt::format(
        "a step with learning rate {}, decay {} and update bound {} cannot be: all must be numbers that are "
        "not negative, the first two finite",
        step.learning_rate, step.decay, step.update_bound));
  }
}

void Constraint::apply_(const Param& param, double sigma_max, const StepInfo& step) {
  check(param, sigma_max, step);
  if (needs_update_bound() && !step.has_update_bound()) {
    throw InputError(name(),
                     fmt::format("{} is trained by an optimizer whose update has no known norm (AdamW); "
                                 "train it with Muon, or take normalize, stiefel or hammer",
                                 param.name));
  }
  const at::NoGradGuard no_grad;
  const Tensor blocks = param.block_view();
  require_finite(blocks, fmt::format("{} of {}", name(), param.name).c_str());
  const double unit = param.unit();
  const Task task{.weight = param.blocks == 1 ? blocks.squeeze(0) : blocks,
                  .cap = sigma_max * unit,
                  .reach = step.reach(sigma_max) * unit,
                  .unit = unit};
  const Tensor projected = project(task);
  if (projected.is_same(task.weight)) return;
  if (may_overflow() && !std::isfinite(largest_entry(projected))) {
    throw NumericError(
        name(), fmt::format("{} is so far outside its cap {} that the projection overflows; bring it inside "
                            "first (Enforcer::start_), or take a smaller step",
                            param.name, sigma_max));
  }
  task.weight.copy_(projected);
}

Guarantee Constraint::guarantee(const Param& param, double sigma_max, const StepInfo& step) const {
  check(param, sigma_max, step);
  return promise(param, sigma_max, step);
}

}  // namespace bridle
