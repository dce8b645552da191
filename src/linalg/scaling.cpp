// See scaling.h.
#include "linalg/scaling.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr std::array<int64_t, 2> kMatrixDims = {-2, -1};

// The 2-norm in float32, or float64 for float64, in parts of a fixed size: the same bits on any number of threads, and
// LibTorch's conversion of bfloat16 stays in the cache.
Tensor plain_norm(const Tensor& matrices) {
  constexpr int64_t part_elements = 1 << 15;  // LibTorch does not split sums of this size
  const auto dtype = matrices.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t row_elements = matrices.numel() / matrices.size(-2);
  const std::vector<Tensor> parts = matrices.split(std::max<int64_t>(1, part_elements / row_elements), -2);
  std::vector<Tensor> norms(parts.size());
  const bool gradients = at::GradMode::is_enabled();  // of this thread; the others have their own
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    const at::AutoGradMode mode(gradients);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      norms[i] = at::linalg_vector_norm(parts[i], 2, kMatrixDims, true, dtype);
  });
  return norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::cat(norms, -2), 2, kMatrixDims, true);
}

}  // namespace

Tensor frobenius_norm(const Tensor& matrices) {
  const bool is_double = matrices.scalar_type() == at::kDouble;
  const Tensor norm = plain_norm(matrices);
  // Squares of entries below 1e-15 or above 1e15 would lose digits or overflow in float32 (1e150 in float64).
  const double low = is_double ? 1e-140 : 1e-15, high = is_double ? 1e150 : 1e15;
  if (norm.gt(low).logical_and(norm.lt(high)).all().item<bool>()) return norm;
  const Tensor scale = power_of_two_scale(matrices);
  const Tensor scaled = matrices.to(at::kDouble).div(scale);
  return at::linalg_vector_norm(scaled, 2, kMatrixDims, true).mul(scale);
}

double largest_entry(const Tensor& x) {
  const auto [least, most] = at::aminmax(x);  // ten times as fast as the ∞-norm
  return std::max(std::abs(least.item<double>()), std::abs(most.item<double>()));
}

Tensor power_of_two_scale(const Tensor& matrices) {
  const Tensor largest = matrices.abs().amax(kMatrixDims, true).to(at::kDouble);
  const Tensor scale = largest.log2().floor().exp2();
  return scale.masked_fill(largest.eq(0).logical_or(largest.isfinite().logical_not()), 1.0);
}

void require_finite(const Tensor& matrix, const char* operation) {
  if (std::isfinite(largest_entry(matrix))) return;
  throw NumericError(operation, "the matrix holds NaN or Inf: the run has diverged or the file is damaged");
}

void require_matrix(const Tensor& matrix, const char* operation) {
  if (!matrix.defined() || (matrix.dim() != 2 && matrix.dim() != 3) || matrix.numel() == 0) {
    const auto shape = matrix.defined() ? fmt::format("[{}]", fmt::join(matrix.sizes(), ", ")) : "undefined";
    throw InputError(operation,
                     fmt::format("takes a matrix [m, n] or a batch [b, m, n] with entries, got {}", shape));
  }
  const auto dtype = matrix.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble && dtype != at::kBFloat16) {
    throw InputError(operation,
                     fmt::format("takes float32, bfloat16 or float64, got {}", c10::toString(dtype)));
  }
}

}  // namespace bridle
