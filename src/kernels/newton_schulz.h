// Polynomials of a matrix's singular values with bfloat16 factors, float32 sums and A = XXᵀ (XᵀX for tall ones). Between the
// products X, A and the polynomial stay in the layout of tiles, and a core keeps its columns of X in its cache. The readable twin is
// apply_polynomials with products in bfloat16 (linalg/polynomials.cpp). Results are the same bits on any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace bridle {

// Whether there are kernels for this matrix, or for those of this batch, here: on a CPU with has_bfloat16_products(), float32 or bfloat16.
bool has_newton_schulz(const at::Tensor& matrix);

struct NewtonSchulzStep {
  float a, b, c;
};

// X = matrix/‖matrix‖_F, then X ← (aI + bA + cA²)X for each step, in bfloat16; a new tensor with the dtype of the matrix. Undefined
// where float32 cannot hold the square of the norm or its reciprocal: scale the matrix, or look at it, first. Requires a matrix with
// entries, has_newton_schulz(matrix), and at least one step.
at::Tensor newton_schulz_bf16(const at::Tensor& matrix, std::span<const NewtonSchulzStep> steps);

struct EvenPolynomial {
  float square, cube, fourth;  // coefficients of A², A³ and A⁴
};

// W + (c₂A² + c₃A³ + c₄A⁴)W, where W itself keeps its digits; a new tensor. Requires the same of the matrix.
at::Tensor add_even_polynomial_bf16(const at::Tensor& matrix, const EvenPolynomial& polynomial);

}  // namespace bridle
