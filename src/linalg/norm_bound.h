// Pieces that the methods of spectral_norm_bound share. All matrices here have finite entries of moderate size, so that nothing
// overflows in float64 and what underflows is far below the error terms.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "bridle/upper_bound.h"

namespace bridle {

using at::Tensor;

// γ_k = ku/(1 − ku), u = 2^-53: the relative error of k roundings, rounded up.
double rounding_error(int64_t k);

// Σx and Σx² over all entries, never too small: the floating sum, whatever its order, enlarged by its largest
// error. The entries that are summed must be nonnegative.
UpperBound sum_bound(const Tensor& nonnegative);
UpperBound sum_of_squares_bound(const Tensor& values);

// The matrix, divided by a power of two where its size asks for it; none for NaN and Inf.
struct Scaled {
  Tensor matrix;  // float64, or narrower as it was
  int exponent;
};
std::optional<Scaled> scaled_exactly(const Tensor& matrix);

// Each returns a bound of σ of the scaled matrix; none if the method failed.
std::optional<UpperBound> norm_by_cholesky(const Tensor& scaled, double most_excess = 1e-8,
                                           double try_first = 0.0);
std::optional<UpperBound> norm_by_gram_iteration(const Tensor& scaled);
std::optional<UpperBound> norm_by_svd(const Tensor& scaled);

// True only if σ ≤ limit is proved, for the scaled matrix.
bool prove_by_cholesky(const Tensor& scaled, double limit);

}  // namespace bridle
