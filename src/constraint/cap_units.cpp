// See cap_units.h.
#include "constraint/cap_units.h"

#include <vector>

namespace bridle {

Tensor apply_in_units_of(double cap, const Tensor& weight, std::span<const OddPolynomial> polynomials,
                         std::optional<at::ScalarType> products) {
  // Scaled coefficients save two passes over the weight, but leave float32's range for extreme caps.
  const bool coefficients_fit = cap > 1e-4 && cap < 1e4;
  if (!coefficients_fit) return apply_polynomials(weight.div(cap), polynomials, products).mul(cap);
  std::vector<OddPolynomial> scaled(polynomials.begin(), polynomials.end());
  for (OddPolynomial& p : scaled) p = {p.a, p.b / (cap * cap), p.c / (cap * cap * cap * cap)};
  return apply_polynomials(weight, scaled, products);
}

}  // namespace bridle
