// The spectral norm from above: scaling, choice of the method, and what the methods share.
#include "linalg/norm_bound.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "base/rounding.h"
#include "bridle/error.h"
#include "bridle/linalg.h"
#include "kernels/exact_arithmetic.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

// What every bound is computed under: ordinary rounding, and no graph for gradients; on the CPU, whose arithmetic is IEEE's.
struct ProofScope {
  ExactArithmetic arithmetic;
  at::NoGradGuard no_grad;
};

// Squares and their sums neither overflow nor come near the underflow threshold: true of all float32 weights.
constexpr int kSafeExponent = 200;

std::optional<NormBound> bound_one(const Tensor& matrix, const NormBoundOptions& options, double try_first) {
  const auto scaled = scaled_exactly(matrix);
  if (!scaled) return std::nullopt;
  const auto run = [&]() -> std::optional<UpperBound> {
    switch (options.method) {
      case BoundMethod::cholesky:
        return norm_by_cholesky(scaled->matrix, options.excess, std::ldexp(try_first, -scaled->exponent));
      case BoundMethod::gram:
        return norm_by_gram_iteration(scaled->matrix.to(at::kDouble));
      case BoundMethod::svd:
        return norm_by_svd(scaled->matrix.to(at::kDouble));
    }
    return std::nullopt;
  };
  const auto norm = run();
  if (!norm || norm->is_unbounded()) return std::nullopt;
  return NormBound{UpperBound::scaled(norm->mantissa(), norm->exponent() + scaled->exponent), options.method};
}

Tensor as_batch(const Tensor& matrices) {
  const Tensor own = matrices.cpu();
  return own.dim() == 2 ? own.unsqueeze(0) : own;
}

}  // namespace

double rounding_error(int64_t k) {
  const double ku = static_cast<double>(k) * 0x1p-53;  // exact: k is far below 2^53
  return div_up(ku, add_down(1.0, -ku));
}

UpperBound sum_bound(const Tensor& nonnegative) {
  const double sum = nonnegative.sum().item<double>();
  return UpperBound(sum) * (1.0 + UpperBound(rounding_error(nonnegative.numel() + 1)));
}

UpperBound sum_of_squares_bound(const Tensor& values) {
  const double sum = values.square().sum().item<double>();
  // The last term covers squares that underflow to zero.
  return UpperBound(sum) * (1.0 + UpperBound(rounding_error(values.numel() + 2))) +
         UpperBound(static_cast<double>(values.numel())) * UpperBound::scaled(1.0, -1022);
}

std::optional<Scaled> scaled_exactly(const Tensor& matrix) {
  const double largest = largest_entry(matrix);
  if (!std::isfinite(largest)) return std::nullopt;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent; 0 for a zero matrix
  if (std::abs(exponent) <= kSafeExponent) return Scaled{matrix, 0};
  // Two factors, because 2^-exponent alone may not be representable.
  const int half = exponent / 2;
  const Tensor scaled =
      matrix.to(at::kDouble).mul(std::ldexp(1.0, -half)).mul(std::ldexp(1.0, half - exponent));
  return Scaled{scaled, exponent};
}

const char* bound_method_name(BoundMethod method) {
  switch (method) {
    case BoundMethod::cholesky:
      return "cholesky";
    case BoundMethod::gram:
      return "gram";
    case BoundMethod::svd:
      return "svd";
  }
  return "unknown";
}

std::vector<std::optional<NormBound>> spectral_norm_bounds(const Tensor& matrices,
                                                           const NormBoundOptions& options) {
  require_matrix(matrices, "spectral_norm_bound");
  const std::vector<Tensor> each = as_batch(matrices).unbind(0);
  const std::vector<double>& first = options.try_first;
  if (!first.empty() && first.size() != each.size()) {
    throw InputError("spectral_norm_bounds", fmt::format("takes one bound to try a matrix, got {} for {}",
                                                         first.size(), each.size()));
  }
  const ProofScope scope;
  std::vector<std::optional<NormBound>> bounds;
  for (size_t i = 0; i < each.size(); ++i)
    bounds.push_back(bound_one(each[i], options, first.empty() ? 0.0 : first[i]));
  return bounds;
}

std::optional<NormBound> spectral_norm_bound(const Tensor& matrix, const NormBoundOptions& options) {
  require_matrix(matrix, "spectral_norm_bound");
  if (matrix.dim() == 3 && matrix.size(0) != 1) {
    throw InputError(
        "spectral_norm_bound",
        fmt::format("takes one matrix, got a batch of {}: use spectral_norm_bounds", matrix.size(0)));
  }
  return spectral_norm_bounds(matrix, options).front();
}

bool prove_spectral_norm(const Tensor& matrices, double limit) {
  require_matrix(matrices, "prove_spectral_norm");
  const ProofScope scope;
  for (const Tensor& matrix : as_batch(matrices).unbind(0)) {
    const auto scaled = scaled_exactly(matrix);
    if (!scaled) return false;
    // Exact, or, where it leaves float64's range, a limit that is never too large.
    const double scaled_limit = std::ldexp(limit, -scaled->exponent);
    const bool exact = std::ldexp(scaled_limit, scaled->exponent) == limit;
    if (!prove_by_cholesky(scaled->matrix, exact ? scaled_limit : next_down(scaled_limit))) return false;
  }
  return true;
}

std::optional<UpperBound> row_rms_bound(const Tensor& table) {
  require_matrix(table, "row_rms_bound");
  const ProofScope scope;
  const auto scaled = scaled_exactly(table.cpu());
  if (!scaled) return std::nullopt;
  const Tensor rows = scaled->matrix.to(at::kDouble);
  const double largest = rows.square().sum(-1).max().item<double>();
  const auto columns = static_cast<double>(rows.size(-1));
  const UpperBound sum = UpperBound(largest) * (1.0 + UpperBound(rounding_error(rows.size(-1) + 2))) +
                         UpperBound(columns) * UpperBound::scaled(1.0, -1022);
  const UpperBound rms = sqrt(sum / columns);
  return UpperBound::scaled(rms.mantissa(), rms.exponent() + scaled->exponent);
}

}  // namespace bridle
