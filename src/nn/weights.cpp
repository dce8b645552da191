#include "nn/weights.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace bridle {
namespace {

// Semi-orthogonal, uniformly distributed: QR with the signs of R's diagonal taken out. Tall or wide.
at::Tensor semi_orthogonal(const at::Tensor& gaussian) {
  const bool wide = gaussian.size(0) < gaussian.size(1);
  const auto [q, r] = at::linalg_qr(wide ? gaussian.t() : gaussian);
  const at::Tensor signed_q = q.mul(r.diagonal().sign());
  return (wide ? signed_q.t() : signed_q).contiguous();
}

}  // namespace

at::Tensor Weights::normal(at::IntArrayRef shape) const {
  return random_normal(
      shape, {.seed = *origin_.seed, .stream = Stream::initial_weights, .step = params_.size()}, at::kDouble);
}

Param Weights::add(const std::string& name, Role role, const at::Tensor& values) {
  params_.push_back(
      {.name = name,
       .tensor = (origin_.given ? values : values.to(origin_.dtype)).contiguous().requires_grad_(true),
       .role = role,
       .attention_residuals_after = attention_residuals_after,
       .mlp_residuals_after = mlp_residuals_after});
  return params_.back();
}

Param Weights::add_plain(const std::string& name, Role role, at::IntArrayRef shape) {
  return add(name, role, origin_.given ? origin_.given(name, shape) : at::zeros(shape, origin_.dtype));
}

Param Weights::matrix(const std::string& name, Role role, int64_t out, int64_t in) {
  if (is_plain()) return add_plain(name, role, {out, in});
  const bool ends_branch = role == Role::attention_output || role == Role::mlp_down;
  if (options_.initialization == "normal") {
    const double branches = 2.0 * static_cast<double>(options_.num_hidden_layers);
    return add(name, role, normal({out, in}).mul_(ends_branch ? 0.02 / std::sqrt(branches) : 0.02));
  }
  if (ends_branch || role == Role::head) return add(name, role, at::zeros({out, in}, at::kDouble));
  const double unit = std::sqrt(static_cast<double>(out) / static_cast<double>(in));
  return add(name, role, semi_orthogonal(normal({out, in})).mul_(unit));
}

Param Weights::table(const std::string& name, Role role, int64_t rows, int64_t columns) {
  if (is_plain()) return add_plain(name, role, {rows, columns});
  const at::Tensor values = normal({rows, columns});
  if (options_.initialization == "normal") return add(name, role, values.mul(0.02));
  return add(name, role, values.div(values.square().mean(1, /*keepdim=*/true).sqrt()));
}

Param Weights::vector(const std::string& name, Role role, at::IntArrayRef shape, double value) {
  if (origin_.given) return add_plain(name, role, shape);
  return add(name, role, at::full(shape, value, at::kDouble));
}

}  // namespace bridle
