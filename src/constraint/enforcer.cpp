// Enforce, prove, repair.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "linalg/scaling.h"

namespace bridle {

Enforcer::Enforcer(const Param& param, const ConstraintOptions& options, double sigma_max)
    : Enforcer(param, is_table(param.role) ? make_row_cap() : make_constraint(options), sigma_max) {}

Enforcer::Enforcer(Param param, std::unique_ptr<Constraint> constraint, double sigma_max)
    : param_(std::move(param)), constraint_(std::move(constraint)) {
  if (!is_matrix(param_.role) && !is_table(param_.role))
    throw InputError("constraint", fmt::format("{}: its role must be that of a matrix or a table, got {}",
                                               param_.name, role_name(param_.role)));
  if (constraint_ == nullptr)
    throw InputError("constraint", fmt::format("{}: its constraint must not be null", param_.name));
  set_cap(sigma_max);
}

void Enforcer::set_cap(double sigma_max) {
  if (constraint_->uses_cap() && !(sigma_max > 0.0 && std::isfinite(sigma_max)))
    throw InputError(constraint_->name(), fmt::format("{}: sigma_max must be positive and finite, got {}",
                                                      param_.name, sigma_max));
  sigma_max_ = sigma_max;
}

double Enforcer::margin(at::ScalarType weight, at::ScalarType products) {
  if (weight == at::kBFloat16) return 1.25e-2;
  if (products == at::kBFloat16) return 1e-2;
  return weight == at::kFloat ? 4e-5 : 1e-9;  // in float64 the proof itself needs up to 1e-9
}

double Enforcer::aim_below(double reach) const {
  const auto dtype = param_.tensor.scalar_type();
  const double least = margin(dtype, dtype);
  const double most = margin(dtype, constraint_->product_dtype().value_or(dtype));
  return sigma_max_ * (1.0 - (least + constraint_->product_share(reach) * (most - least)));
}

Guarantee Enforcer::guarantee(const StepInfo& step) const {
  return constraint_->guarantee(param_, sigma_max_, step);
}

void Enforcer::start_() {
  if (!constraint_->uses_cap()) return;
  const at::NoGradGuard no_grad;
  require_finite(param_.tensor, param_.name.c_str());
  const double aim = aim_below();
  if (prove_norm(param_, aim)) return;
  if (!is_table(param_.role)) {
    const Tensor blocks = param_.block_view();
    blocks.copy_(cap_by_svd(blocks, aim * param_.unit()));
  }
  seal_(param_, aim);
}

void Enforcer::enforce_(const StepInfo& step) {
  constraint_->apply_(param_, aim_below(step.reach(sigma_max_) / sigma_max_), step);
}

bool Enforcer::prove_and_repair_() {
  if (prove()) return false;
  seal_(param_, aim_below());
  ++repairs_;
  return true;
}

}  // namespace bridle
