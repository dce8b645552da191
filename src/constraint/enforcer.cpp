// Enforce, prove, repair.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "linalg/scaling.h"

namespace bridle {

Enforcer::Enforcer(const ConstraintOptions& options, Role role) : options_(options), role_(role) {
  if (!is_matrix(role) && !is_table(role)) {
    throw InputError("constraint",
                     fmt::format("a weight of role {} has no norm to constrain", role_name(role)));
  }
  constraint_ = is_table(role) ? make_row_cap() : make_constraint(options);
}

double Enforcer::margin(at::ScalarType weight, at::ScalarType products) {
  if (weight == at::kBFloat16) return 1.25e-2;
  if (products == at::kBFloat16) return 1e-2;
  return weight == at::kFloat ? 4e-5 : 1e-9;  // in float64 the proof itself needs up to 1e-9
}

double Enforcer::aim_below(const Param& param, double sigma_max, double reach) const {
  const auto dtype = param.tensor.scalar_type();
  const auto products = is_table(role_) ? dtype : options_.product_dtype.value_or(dtype);
  const double least = margin(dtype, dtype), most = margin(dtype, products);
  return sigma_max * (1.0 - (least + constraint_->product_share(reach) * (most - least)));
}

void Enforcer::check_role(const Param& param) const {
  if (is_table(param.role) == is_table(role_) && is_matrix(param.role) == is_matrix(role_)) return;
  throw InputError("constraint", fmt::format("{} has role {}, but its enforcer was made for role {}",
                                             param.name, role_name(param.role), role_name(role_)));
}

void Enforcer::start_(const Param& param, double sigma_max) {
  check_role(param);
  if (!constraint_->uses_cap()) return;
  const at::NoGradGuard no_grad;
  require_finite(param.tensor, param.name.c_str());
  const double aim = aim_below(param, sigma_max);
  if (prove_norm(param, aim)) return;
  if (!is_table(role_)) {
    const Tensor blocks = param.block_view();
    blocks.copy_(cap_by_svd(blocks, aim * param.unit()));
  }
  seal_(param, aim);
}

void Enforcer::enforce_(const Param& param, double sigma_max, const StepInfo& step) {
  check_role(param);
  constraint_->apply_(param, aim_below(param, sigma_max, step.reach(sigma_max) / sigma_max), step);
}

bool Enforcer::prove_and_repair_(const Param& param, double sigma_max) {
  check_role(param);
  if (prove_norm(param, sigma_max)) return false;
  seal_(param, aim_below(param, sigma_max));
  ++repairs_;
  return true;
}

}  // namespace bridle
