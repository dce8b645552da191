#include "nn/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_eigvalsh.h>
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

// Whatever the deviation was. The largest singular value is the root of the Gram matrix's largest eigenvalue.
at::Tensor of_spectral_norm_one(const at::Tensor& gaussian) {
  const bool wide = gaussian.size(0) < gaussian.size(1);
  const at::Tensor gram = wide ? gaussian.matmul(gaussian.t()) : gaussian.t().matmul(gaussian);
  return gaussian.div(at::linalg_eigvalsh(gram).max().sqrt());
}

}  // namespace

at::Tensor Weights::normal(at::IntArrayRef shape) const {
  return random_normal(
      shape, {.seed = *origin_.seed, .stream = Stream::initial_weights, .step = params_.size()}, at::kDouble);
}

Param Weights::add(const std::string& name, Role role, const at::Tensor& values) {
  // Initial values are drawn on the CPU and moved once they are rounded: every device gets the same bits.
  const at::Tensor own = origin_.given ? values : values.to(origin_.dtype).contiguous().to(origin_.device);
  params_.push_back({.name = name,
                     .tensor = own.contiguous().requires_grad_(true),
                     .role = role,
                     .attention_residuals_after = attention_residuals_after,
                     .mlp_residuals_after = mlp_residuals_after});
  return params_.back();
}

at::Tensor Weights::plain(const std::string& name, at::IntArrayRef shape) const {
  return origin_.given ? origin_.given(name, shape) : at::zeros(shape, origin_.dtype);
}

at::Tensor Weights::initial_matrix(Role role, const MatrixShape& shape) const {
  const auto& [out, in, heads, fan_in, apart] = shape;
  const bool ends_branch = role == Role::attention_output || role == Role::mlp_down;
  switch (initialization_) {
    case Initialization::normal: {
      const double deviation = ends_branch ? 0.02 / std::sqrt(static_cast<double>(branches_)) : 0.02;
      return normal({out, in}).mul_(deviation);
    }
    case Initialization::xavier_spectral:
      return of_spectral_norm_one(normal({out, in}));
    case Initialization::orthogonal:
      break;
  }
  if ((ends_branch && branches_begin_at_zero) || role == Role::head) return at::zeros({out, in}, at::kDouble);
  const int64_t blocks = apart ? heads : 1, rows = out / blocks;
  const double unit = std::sqrt(static_cast<double>(rows) / static_cast<double>(fan_in > 0 ? fan_in : in));
  std::vector<at::Tensor> parts = normal({out, in}).split(rows);
  for (at::Tensor& part : parts) part = semi_orthogonal(part).mul_(unit);
  return at::cat(parts);
}

Param Weights::matrix(const std::string& name, Role role, const MatrixShape& shape) {
  add(name, role, is_plain() ? plain(name, {shape.out, shape.in}) : initial_matrix(role, shape));
  params_.back().heads = shape.heads;
  params_.back().fan_in = shape.fan_in;
  if (shape.apart) params_.back().blocks = shape.heads;
  return params_.back();
}

Param Weights::table(const std::string& name, Role role, int64_t rows, int64_t columns) {
  if (is_plain()) return add(name, role, plain(name, {rows, columns}));
  const at::Tensor values = normal({rows, columns});
  switch (initialization_) {
    case Initialization::normal:
      return add(name, role, values.mul(0.02));
    case Initialization::xavier_spectral:
    case Initialization::orthogonal:
      break;
  }
  return add(name, role, values.div(values.square().mean(1, /*keepdim=*/true).sqrt()));
}

Param Weights::vector(const std::string& name, Role role, at::IntArrayRef shape, double value) {
  if (origin_.given) return add(name, role, plain(name, shape));
  return add(name, role, at::full(shape, value, at::kDouble));
}

}  // namespace bridle
