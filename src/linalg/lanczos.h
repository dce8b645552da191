// The largest eigenvalue of a symmetric matrix by Lanczos: a guess for a proof to confirm, many times cheaper
// than all eigenvalues.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

struct EigenvalueEstimate {
  double value;        // from below but for rounding
  double uncertainty;  // relative: how much the last quarter of the steps has still changed the value
  int64_t steps;
};

// `symmetric` is [n, n] in float64, finite. Stops as soon as the uncertainty is at most the one wanted, or
// after max_steps.
EigenvalueEstimate largest_eigenvalue_estimate(const at::Tensor& symmetric, double wanted_uncertainty = 0.0,
                                               int64_t max_steps = 80);

}  // namespace bridle
