// Enforce, prove, repair.
#include <cmath>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "linalg/scaling.h"

namespace bridle {

Enforcer::Enforcer(const ConstraintOptions& options, Role role)
    : options_(options), constraint_(is_table(role) ? make_row_cap() : make_constraint(options)) {}

double Enforcer::margin(at::ScalarType weight, at::ScalarType products) {
  if (weight == at::kBFloat16) return 1.25e-2;
  if (products == at::kBFloat16) return 1e-2;
  return weight == at::kFloat ? 4e-5 : 1e-12;
}

double Enforcer::aim_below(const Param& param, double sigma_max) const {
  const auto dtype = param.tensor.scalar_type();
  if (is_table(param.role)) return sigma_max;  // a row is scaled afresh every time: nothing adds up
  return sigma_max * (1.0 - margin(dtype, options_.product_dtype.value_or(dtype)));
}

void Enforcer::start_(const Param& param, double sigma_max) {
  if (!constraint_->uses_cap()) return;
  if (!(sigma_max > 0.0)) throw InputError("constraint", "sigma_max must be positive for " + param.name);
  require_finite(param.tensor, "constraint");
  const double aim = aim_below(param, sigma_max);
  if (prove_norm(param, aim)) return;
  if (!is_table(param.role)) {
    const Tensor blocks = param.block_view();
    blocks.copy_(cap_by_svd(blocks, aim * param.unit()));
  }
  seal_(param, aim);
}

void Enforcer::enforce_(const Param& param, double sigma_max, const StepInfo& step) {
  constraint_->apply_(param, aim_below(param, sigma_max), step);
}

bool Enforcer::prove_and_repair_(const Param& param, double sigma_max) {
  if (prove_norm(param, sigma_max)) return false;
  seal_(param, aim_below(param, sigma_max));
  ++repairs_;
  return true;
}

}  // namespace bridle
