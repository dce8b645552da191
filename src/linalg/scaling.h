// Norms and scale factors that survive entries of 1e±30, whose squares leave float32's range.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

using at::Tensor;

// [b, 1, 1] of [b, m, n], in float32, or in float64 for float64 and for sizes that leave float32's range. NaN and Inf
// pass through.
Tensor frobenius_norm(const Tensor& matrices);

// The largest |entry|, in one pass and without a copy; NaN where there is one.
double largest_entry(const Tensor& x);

// A power of two within a factor of 2 of the largest entry's size, [b, 1, 1] in float64; 1 for zero, NaN and
// Inf.
Tensor power_of_two_scale(const Tensor& matrices);

// Throws NumericError, naming the operation, where an entry is NaN or Inf.
void require_finite(const Tensor& matrix, const char* operation);

// Throws InputError unless the tensor is a matrix or a batch of them, not empty, in a supported dtype.
void require_matrix(const Tensor& matrix, const char* operation);

}  // namespace bridle
