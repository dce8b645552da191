// The largest eigenvalue of a symmetric matrix by Lanczos: a guess for a proof to confirm, many times cheaper
// than all eigenvalues.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

// `symmetric` is [n, n] in float64, finite. From below but for rounding; relative error near 1e-12 for most
// spectra.
double largest_eigenvalue_estimate(const at::Tensor& symmetric, int64_t max_steps = 80);

}  // namespace bridle
