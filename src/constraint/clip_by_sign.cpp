// See clip_by_sign.h.
#include "constraint/clip_by_sign.h"

#include <algorithm>
#include <cmath>

#include "linalg/product.h"

namespace bridle {
namespace {

// sign(tI − OWᵀ)(tO − W): U·|t − Σ|·Vᵀ. `overlap` is OWᵀ, or WᵀO for a tall W.
Tensor distance_from(double t, const Tensor& sign, const Tensor& matrix, const Tensor& overlap) {
  const Tensor shifted = overlap.neg();
  shifted.diagonal(0, -2, -1).add_(t);
  return apply_side(matrix_sign(shifted), sign.mul(t).sub(matrix));
}

Tensor overlap_of(const Tensor& sign, const Tensor& matrix) {
  return is_tall(matrix) ? product(transposed(matrix), sign) : product(sign, transposed(matrix));
}

}  // namespace

Tensor cap_by_sign(const Tensor& matrix, double cap) {
  const Tensor sign = matrix_sign(matrix);
  const Tensor distance = distance_from(cap, sign, matrix, overlap_of(sign, matrix));
  return sign.mul(cap).add_(matrix).sub_(distance).mul_(0.5);
}

Tensor clip_by_sign(const Tensor& matrix, double floor, double cap) {
  const Tensor sign = matrix_sign(matrix);
  const Tensor overlap = overlap_of(sign, matrix);
  const Tensor from_floor = distance_from(floor, sign, matrix, overlap);
  const Tensor from_cap = distance_from(cap, sign, matrix, overlap);
  return sign.mul(floor + cap).add_(from_floor).sub_(from_cap).mul_(0.5);
}

std::optional<double> cap_by_sign_excess(double norm, double cap, int64_t n) {
  constexpr double unconverged = 3.5e-5;  // sup of x(1 − s(x))/2 on [0, 1], s the polynomial of matrix_sign
  constexpr double defect = 4e-7;         // sup of 1 − s(x) on [10⁻³, 1]
  const double root = std::sqrt(static_cast<double>(n));
  if (!(root * norm <= 1000.0 * cap)) return std::nullopt;
  return unconverged * root * std::max(cap, norm - cap) + defect * (norm + cap);
}

}  // namespace bridle
