// The spectral toolbox: functions of a matrix's singular values, and its spectral norm from below and from
// above. Every function takes one matrix [m, n] or a batch [b, m, n], tall or wide, in float32, bfloat16 or
// float64, on any device, and leaves its argument alone. Names tell what a number is: *_bound is never too
// small, *_estimate is measured and may be either.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bridle/upper_bound.h"

namespace bridle {

using at::Tensor;

// ---- Odd polynomials of singular values: W = UΣVᵀ ↦ U p(Σ) Vᵀ
// ------------------------------------------------------

// p(x) = ax + bx³ + cx⁵
struct OddPolynomial {
  double a = 1.0;
  double b = 0.0;
  double c = 0.0;

  double operator()(double x) const { return x * (a + x * x * (b + x * x * c)); }
};

// The polynomials one after the other. Iterates on the smaller side; where the matrix is so wide or tall that
// it pays, in Gram space (docs/theory/polynomials.md). Products run in the matrix's own precision or in the
// one given; the result has the matrix's dtype, and keeps its digits where every polynomial starts with 1·x.
Tensor apply_polynomials(const Tensor& matrix, std::span<const OddPolynomial> polynomials,
                         std::optional<at::ScalarType> products = std::nullopt);

// The published lists of Newton–Schulz steps that drive singular values towards 1.
enum class Coefficients {
  six_step,   // You (2025): never above 1
  five_step,  // the paper's NanoGPT runs
  classic,    // 3.4445, −4.7750, 2.0315, five times
};

const char* word(Coefficients coefficients);  // in recipes: the names above; null past the last

std::span<const OddPolynomial> polynomials(Coefficients coefficients);

// The largest value of the composed polynomial on [0, 1], rounded up: what `orthogonalize` can return as
// spectral norm in exact arithmetic.
double update_bound(Coefficients coefficients);

// U Vᵀ, nearly: divides by the Frobenius norm, then applies the list. Zero stays zero. Iterates in the matrix's own precision or in
// the one given; the result has the matrix's dtype.
Tensor orthogonalize(const Tensor& matrix, Coefficients coefficients = Coefficients::six_step,
                     std::optional<at::ScalarType> precision = std::nullopt);

// U sign(Σ) Vᵀ to working precision for singular values above 10⁻³ of the Frobenius norm: the six-step list
// and two steps that converge cubically. Never above 1 in exact arithmetic.
Tensor matrix_sign(const Tensor& matrix);

// ---- Singular values through an exact decomposition: the yardstick
// -------------------------------------------------

// U min(Σ, cap) Vᵀ, decomposed in float64, returned in the matrix's dtype.
Tensor cap_by_svd(const Tensor& matrix, double cap);

// U clip(Σ, floor, cap) Vᵀ, likewise.
Tensor clip_by_svd(const Tensor& matrix, double floor, double cap);

// ---- The spectral norm from below
// ----------------------------------------------------------------------------------

// Power iteration's vectors, kept between calls so that a few rounds suffice while a weight moves slowly.
struct PowerState {
  Tensor right;  // [b, n]; empty: start from fixed random vectors
};

// The leading singular triple as power iteration sees it. sigma = uᵀWv never exceeds the norm but for
// rounding.
struct TopSingular {
  Tensor sigma;  // [b]
  Tensor left;   // [b, m]
  Tensor right;  // [b, n]
};

TopSingular top_singular_estimate(const Tensor& matrix, PowerState& state, int rounds = 16);

// One number per matrix, [b] or [].
Tensor spectral_norm_estimate(const Tensor& matrix, int rounds = 16);

// ---- The spectral norm from above, rigorous in floating point: docs/theory/spectral_norm.md
// ------------------------

enum class BoundMethod { cholesky, gram, svd };
const char* bound_method_name(BoundMethod method);

struct NormBoundOptions {
  BoundMethod method = BoundMethod::cholesky;
  // How far above the norm the bound may lie, as a share of it. 10⁻⁴ saves the Cholesky method most of its
  // time.
  double excess = 1e-8;
  // Bounds to try first, one per matrix: the Cholesky method returns one that it can prove, saving most of its time, however far above
  // the norm it lies, and looks for the norm itself only where it cannot.
  std::vector<double> try_first = {};
};

struct NormBound {
  UpperBound value;
  BoundMethod method;
};

// One bound a matrix; none where the matrix holds NaN or Inf or the method failed.
std::vector<std::optional<NormBound>> spectral_norm_bounds(const Tensor& matrices,
                                                           const NormBoundOptions& options = {});

// The bound of one matrix [m, n].
std::optional<NormBound> spectral_norm_bound(const Tensor& matrix, const NormBoundOptions& options = {});

// True only if σ(W) ≤ limit is proved for every matrix: one Gram product and one Cholesky factorisation each.
bool prove_spectral_norm(const Tensor& matrices, double limit);

// √(mean of squares), the largest over the rows of [rows, columns]; none for NaN and Inf.
std::optional<UpperBound> row_rms_bound(const Tensor& table);

}  // namespace bridle
