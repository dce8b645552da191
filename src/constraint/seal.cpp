// Proof and repair by scaling: the last word on a weight before it is used or stored.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "base/rounding.h"
#include "bridle/constraint.h"
#include "bridle/error.h"

namespace bridle {
namespace {

void require_cap(const Param& param, double sigma_max) {
  if (sigma_max > 0.0 && std::isfinite(sigma_max)) return;
  throw InputError("seal",
                   fmt::format("sigma_max of {} must be positive and finite, got {}", param.name, sigma_max));
}

// The unit is a root of a quotient, each good to half a unit in the last place.
double unit_below(const Param& param) { return next_down(next_down(param.unit())); }

double epsilon(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return 0x1p-8;
  return dtype == at::kFloat ? 0x1p-23 : 0x1p-52;
}

// The weight scaled by scaled(margin), with margins that grow until it is proved; undefined if none is enough.
template <class Scaled, class Proved>
Tensor scale_until_proved(at::ScalarType dtype, const Scaled& scaled, const Proved& proved) {
  constexpr double most_margin = 0.25;
  for (double margin = 0.0; margin <= most_margin; margin = margin == 0.0 ? epsilon(dtype) / 4 : 2 * margin) {
    const Tensor candidate = scaled(margin);
    if (proved(candidate)) return candidate;
  }
  return {};
}

Tensor sealed_block(const Tensor& block, double limit) {
  const auto norm = spectral_norm_bound(block);
  if (!norm) return {};
  const double factor = std::min(1.0, limit / norm->value.to_double());
  return scale_until_proved(
      block.scalar_type(), [&](double margin) { return block.mul(factor * (1.0 - margin)); },
      [&](const Tensor& candidate) { return prove_spectral_norm(candidate, limit); });
}

bool rows_proved(const Tensor& table, double limit) {
  const auto rms = row_rms_bound(table);
  return rms && *rms <= UpperBound(limit);
}

Tensor sealed_table(const Tensor& table, double limit) {
  if (!row_rms_bound(table)) return {};
  const Tensor rms = table.to(at::kDouble).square().mean(-1, true).sqrt();
  const auto scaled = [&](double margin) {
    return table.div(rms.div(limit * (1.0 - margin)).clamp_min(1.0)).to(table.scalar_type());
  };
  return scale_until_proved(table.scalar_type(), scaled,
                            [&](const Tensor& candidate) { return rows_proved(candidate, limit); });
}

[[noreturn]] void fail(const Param& param, double sigma_max) {
  throw PromiseError(
      "seal", fmt::format("{} could not be brought to a proved norm of {}: it holds NaN, Inf or values that "
                          "its precision cannot scale",
                          param.name, sigma_max));
}

}  // namespace

bool prove_norm(const Param& param, double sigma_max) {
  require_cap(param, sigma_max);
  if (is_table(param.role)) return rows_proved(param.tensor, sigma_max);
  return prove_spectral_norm(param.block_view(), mul_down(sigma_max, unit_below(param)));
}

std::optional<UpperBound> norm_bound(const Param& param) {
  if (is_table(param.role)) return row_rms_bound(param.tensor);
  UpperBound largest;
  for (const auto& bound : spectral_norm_bounds(param.block_view())) {
    if (!bound) return std::nullopt;
    largest = max(largest, bound->value / unit_below(param));
  }
  return largest;
}

bool seal_(const Param& param, double sigma_max) {
  require_cap(param, sigma_max);
  if (prove_norm(param, sigma_max)) return false;
  const at::NoGradGuard no_grad;
  if (is_table(param.role)) {
    const Tensor sealed = sealed_table(param.tensor, sigma_max);
    if (!sealed.defined()) fail(param, sigma_max);
    param.tensor.copy_(sealed);
    return true;
  }
  const double limit = mul_down(sigma_max, unit_below(param));
  const Tensor blocks = param.block_view();
  std::vector<Tensor> sealed;
  for (const Tensor& block : blocks.unbind(0)) {
    sealed.push_back(prove_spectral_norm(block, limit) ? block : sealed_block(block, limit));
    if (!sealed.back().defined()) fail(param, sigma_max);
  }
  for (int64_t i = 0; i < blocks.size(0); ++i) blocks[i].copy_(sealed[static_cast<size_t>(i)]);
  return true;
}

}  // namespace bridle
