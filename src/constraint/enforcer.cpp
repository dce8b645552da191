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
  if (products == at::kBFloat16) return 1e-3;
  return weight == at::kFloat ? 4e-5 : 1e-12;
}

void Enforcer::start_(const Param& param, double sigma_max) {
  if (!constraint_->uses_cap()) return;
  if (!(sigma_max > 0.0)) throw InputError("constraint", "sigma_max must be positive for " + param.name);
  require_finite(param.tensor, "constraint");
  if (prove_norm(param, sigma_max)) return;
  if (!is_table(param.role)) {
    const Tensor blocks = param.block_view();
    blocks.copy_(cap_by_svd(blocks, sigma_max * param.unit()));
  }
  seal_(param, sigma_max);
}

void Enforcer::enforce_(const Param& param, double sigma_max, const StepInfo& step) {
  const auto dtype = param.tensor.scalar_type();
  const double aim = 1.0 - margin(dtype, options_.product_dtype.value_or(dtype));
  constraint_->apply_(param, sigma_max * aim, step);
}

bool Enforcer::prove_and_repair_(const Param& param, double sigma_max) {
  if (prove_norm(param, sigma_max)) return false;
  seal_(param, sigma_max);
  ++repairs_;
  return true;
}

}  // namespace bridle
