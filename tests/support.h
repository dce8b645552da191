// What several tests need: matrices with a given spectrum, and exact singular values to hold results against.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace bridle::test {

using at::Tensor;

// [m, n] in float64 with the given singular values (min(m, n) of them) and random singular vectors.
Tensor matrix_with_spectrum(const Tensor& spectrum, int64_t m, int64_t n, uint64_t seed);

// Spectra that trouble numerical code. `kind` counts from 0 to kSpectra − 1; values lie around 1 but for the
// last ones.
constexpr int kSpectra = 7;
const char* spectrum_name(int kind);
Tensor spectrum(int kind, int64_t rank, uint64_t seed);

double spectral_norm(const Tensor& matrix);  // by SVD in float64
Tensor singular_values(const Tensor& matrix);
double largest_difference(const Tensor& a, const Tensor& b);

// U f(Σ) Vᵀ in float64.
Tensor map_singular_values(const Tensor& matrix, const std::function<double(double)>& f);

// Unit roundoff of the type, times 2: 2^-52, 2^-23, 2^-8.
double epsilon(at::ScalarType dtype);

Tensor normal(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype = at::kDouble);

}  // namespace bridle::test
