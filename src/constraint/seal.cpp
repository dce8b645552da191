// Proof and repair by scaling: the last word on a weight before it is used or stored.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rounding.h"
#include "bridle/constraint.h"
#include "bridle/error.h"

namespace bridle {
namespace {

constexpr int kMostAttempts = 24;

// The largest ordinary spectral norm that a block may have, rounded down.
double spectral_limit(const Param& param, double sigma_max) {
  return mul_down(sigma_max, next_down(next_down(param.unit())));
}

double epsilon(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return 0x1p-8;
  return dtype == at::kFloat ? 0x1p-23 : 0x1p-52;
}

// One matrix, or a table whose rows are scaled all alike: `bound` and `proved` speak of it as it is now
// stored.
template <class Bound, class Proved>
bool scale_until_proved_(const Tensor& weight, double limit, const Bound& bound, const Proved& proved) {
  if (proved()) return false;
  double margin = 0.0;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const std::optional<double> norm = bound();
    if (!norm || !std::isfinite(*norm)) break;
    weight.mul_(std::min(1.0, limit / *norm) * (1.0 - margin));
    if (proved()) return true;
    margin = margin == 0.0 ? epsilon(weight.scalar_type()) / 4 : 2 * margin;
  }
  throw PromiseError(
      "seal", fmt::format("the weight could not be brought to a proved norm of {}: it holds NaN, Inf or "
                          "values beyond its precision",
                          limit));
}

bool seal_block_(const Tensor& block, double limit) {
  const auto bound = [&]() -> std::optional<double> {
    const auto norm = spectral_norm_bound(block);
    return norm ? std::optional(norm->value.to_double()) : std::nullopt;
  };
  return scale_until_proved_(block, limit, bound, [&] { return prove_spectral_norm(block, limit); });
}

bool seal_table_(const Param& param, double limit) {
  const Tensor& table = param.tensor;
  const auto rows_above = [&](double margin) {
    const Tensor rms = table.to(at::kDouble).square().mean(-1, true).sqrt();
    return rms.div(limit * (1.0 - margin)).clamp_min(1.0);
  };
  double margin = 0.0;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const auto rms = row_rms_bound(table);
    if (!rms) break;
    if (*rms <= UpperBound(limit)) return attempt > 0;
    table.copy_(table.div(rows_above(margin)));
    margin = margin == 0.0 ? epsilon(table.scalar_type()) / 4 : 2 * margin;
  }
  throw PromiseError("seal", fmt::format("the rows of {} could not be brought to RMS {}", param.name, limit));
}

}  // namespace

bool prove_norm(const Param& param, double sigma_max) {
  if (!is_table(param.role)) return prove_spectral_norm(param.block_view(), spectral_limit(param, sigma_max));
  const auto rms = row_rms_bound(param.tensor);
  return rms && *rms <= UpperBound(sigma_max);
}

bool seal_(const Param& param, double sigma_max) {
  if (!(sigma_max > 0.0))
    throw InputError("seal", fmt::format("sigma_max is {}: it must be positive", sigma_max));
  if (is_table(param.role)) return seal_table_(param, sigma_max);
  bool changed = false;
  for (const Tensor& block : param.block_view().unbind(0)) {
    changed = seal_block_(block, spectral_limit(param, sigma_max)) || changed;
  }
  return changed;
}

}  // namespace bridle
