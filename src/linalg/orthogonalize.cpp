// Newton–Schulz iterations towards UVᵀ. The lists are published figures; their suprema are checked in the
// tests.
#include <ATen/ops/empty.h>

#include <array>
#include <vector>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "kernels/newton_schulz.h"
#include "linalg/polynomials.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

constexpr OddPolynomial over_1024(double a, double b, double c) { return {a / 1024, b / 1024, c / 1024}; }

// Cubic convergence to 1 from anywhere in (0, 1], and never above 1: (15x − 10x³ + 3x⁵)/8.
constexpr OddPolynomial kPolish = {15.0 / 8, -10.0 / 8, 3.0 / 8};

constexpr std::array<OddPolynomial, 8> kSixStepAndPolish = {
    over_1024(3955, -8306, 5008),
    over_1024(3735, -6681, 3463),
    over_1024(3799, -6499, 3211),
    over_1024(4019, -6385, 2906),
    over_1024(2677, -3029, 1162),
    over_1024(2172, -1833, 682),
    kPolish,
    kPolish,
};

constexpr std::array<OddPolynomial, 5> kFiveStep = {{
    {4.0848, -6.8946, 2.9270},
    {3.9505, -6.3029, 2.6377},
    {3.7418, -5.5913, 2.3037},
    {2.8769, -3.1427, 1.2046},
    {2.8366, -3.0525, 1.2012},
}};

constexpr OddPolynomial kClassicStep = {3.4445, -4.7750, 2.0315};
constexpr std::array<OddPolynomial, 5> kClassic = {kClassicStep, kClassicStep, kClassicStep, kClassicStep,
                                                   kClassicStep};

// The matrix divided by its Frobenius norm, so that its singular values lie in [0, 1]; zero stays zero.
Tensor normalized(const Tensor& matrix) {
  const Tensor norms = frobenius_norm(matrix);
  const Tensor divisors = norms.masked_fill(norms.eq(0), 1.0);
  const bool ordinary = matrix.dim() == 2 && divisors.scalar_type() != at::kDouble;
  if (!ordinary) return matrix.div(divisors).to(matrix.scalar_type());
  // A number keeps bfloat16 as it is, where a float32 tensor would give a float32 copy first.
  return matrix.div(divisors.item<double>());
}

Tensor orthogonalize_on_tiles(const Tensor& matrix, std::span<const NewtonSchulzStep> steps) {
  if (matrix.dim() == 3) {
    const Tensor out = at::empty(matrix.sizes(), matrix.options());
    for (int64_t i = 0; i < matrix.size(0); ++i)
      out.select(0, i).copy_(orthogonalize_on_tiles(matrix.select(0, i), steps));
    return out;
  }
  const Tensor out = newton_schulz_bf16(matrix, steps);
  if (out.defined()) return out;
  const Tensor again = newton_schulz_bf16(normalized(matrix), steps);
  return again.defined() ? again : normalized(matrix);  // zero, or with NaN
}

std::vector<NewtonSchulzStep> in_float32(std::span<const OddPolynomial> list) {
  std::vector<NewtonSchulzStep> steps;
  for (const OddPolynomial& p : list)
    steps.push_back({static_cast<float>(p.a), static_cast<float>(p.b), static_cast<float>(p.c)});
  return steps;
}

bool can_iterate_on_tiles(const Tensor& matrix, std::span<const OddPolynomial> list) {
  return has_newton_schulz(matrix) && !count_products(matrix, list, at::kBFloat16).in_gram_space;
}

}  // namespace

const char* word(Coefficients coefficients) {
  switch (coefficients) {
    case Coefficients::six_step:
      return "six_step";
    case Coefficients::five_step:
      return "five_step";
    case Coefficients::classic:
      return "classic";
  }
  return nullptr;
}

std::span<const OddPolynomial> polynomials(Coefficients coefficients) {
  switch (coefficients) {
    case Coefficients::six_step:
      return std::span(kSixStepAndPolish).first<6>();
    case Coefficients::five_step:
      return kFiveStep;
    case Coefficients::classic:
      return kClassic;
  }
  throw InputError("orthogonalize", "unknown list of coefficients");
}

double update_bound(Coefficients coefficients) {
  switch (coefficients) {
    case Coefficients::six_step:
      return 0.99935;
    case Coefficients::five_step:
      return 1.14503;
    case Coefficients::classic:
      return 1.20238;
  }
  throw InputError("orthogonalize", "unknown list of coefficients");
}

Tensor orthogonalize(const Tensor& matrix, Coefficients coefficients,
                     std::optional<at::ScalarType> precision) {
  require_matrix(matrix, "orthogonalize");
  const auto dtype = precision.value_or(matrix.scalar_type());
  const std::span<const OddPolynomial> list = polynomials(coefficients);
  if (dtype == at::kBFloat16 && can_iterate_on_tiles(matrix, list))
    return orthogonalize_on_tiles(matrix, in_float32(list));
  return apply_polynomials(normalized(matrix.to(dtype)), list).to(matrix.scalar_type());
}

Tensor matrix_sign(const Tensor& matrix) {
  require_matrix(matrix, "matrix_sign");
  return apply_polynomials(normalized(matrix), kSixStepAndPolish);
}

}  // namespace bridle
