// See clip_by_sign.h.
#include "constraint/clip_by_sign.h"

#include <algorithm>
#include <cmath>

#include "linalg/product.h"

namespace bridle {
namespace {

struct Signs {
  // The small matrices keep the weight's own precision: an S that is off by 2^-9 would move a little of everything.
  Signs(const Tensor& w, at::ScalarType products)
      : matrix(w.to(products)),
        sign(matrix_sign(matrix)),
        overlap(is_tall(w) ? product(transposed(matrix), sign, w.scalar_type())
                           : product(sign, transposed(matrix), w.scalar_type())) {}

  // ½(I ∓ S_t): selects the singular values above t (to be moved down), or below it (up).
  Tensor select(double t, double direction) const {
    const Tensor shifted = overlap.neg();
    shifted.diagonal(0, -2, -1).add_(t);
    const Tensor selected = matrix_sign(shifted).mul_(0.5 * direction);
    selected.diagonal(0, -2, -1).add_(0.5);
    return selected;
  }

  // start + ½(I ∓ S_t)(tO − W). What is not selected keeps its digits.
  Tensor moved(const Tensor& start, double t, double direction) const {
    return apply_side_plus(start, 1.0, select(t, direction).to(matrix.scalar_type()),
                           sign.mul(t).sub_(matrix));
  }

  Tensor matrix;   // W
  Tensor sign;     // O
  Tensor overlap;  // OWᵀ, or WᵀO for a tall W
};

constexpr double kDown = -1.0, kUp = 1.0;

}  // namespace

Tensor cap_by_sign(const Tensor& matrix, double cap, std::optional<at::ScalarType> products) {
  return Signs(matrix, products.value_or(matrix.scalar_type())).moved(matrix, cap, kDown);
}

Tensor clip_by_sign(const Tensor& matrix, double floor, double cap, std::optional<at::ScalarType> products) {
  const Signs signs(matrix, products.value_or(matrix.scalar_type()));
  return signs.moved(signs.moved(matrix, cap, kDown), floor, kUp);
}

std::optional<double> cap_by_sign_excess(double norm, double cap, int64_t n) {
  constexpr double unconverged = 3.5e-5;  // sup of x(1 − s(x))/2 on [0, 1], s the polynomial of matrix_sign
  constexpr double defect = 4e-7;         // sup of 1 − s(x) on [10⁻³, 1]
  const double root = std::sqrt(static_cast<double>(n));
  if (!(root * norm <= 1000.0 * cap)) return std::nullopt;
  return unconverged * root * std::max(cap, norm - cap) + defect * (norm + cap);
}

}  // namespace bridle
