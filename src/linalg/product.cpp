// See product.h.
#include "linalg/product.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

namespace bridle {

Tensor product(const Tensor& a, const Tensor& b, at::ScalarType dtype) {
  const auto compute = a.scalar_type() == at::kBFloat16 ? at::kFloat : a.scalar_type();
  const Tensor left = a.to(compute), right = b.to(compute);
  return (a.dim() == 2 ? at::mm(left, right) : at::bmm(left, right)).to(dtype);
}

Tensor product(const Tensor& a, const Tensor& b) { return product(a, b, a.scalar_type()); }

Tensor product_plus(const Tensor& c, double scale, const Tensor& a, const Tensor& b, double factor) {
  const auto compute = a.scalar_type() == at::kBFloat16 ? at::kFloat : a.scalar_type();
  const Tensor left = a.to(compute), right = b.to(compute), addend = c.to(compute);
  return (a.dim() == 2 ? at::addmm(addend, left, right, scale, factor)
                       : at::baddbmm(addend, left, right, scale, factor))
      .to(c.scalar_type());
}

Tensor gram(const Tensor& a, at::ScalarType dtype) {
  return is_tall(a) ? product(transposed(a), a, dtype) : product(a, transposed(a), dtype);
}

Tensor apply_side(const Tensor& p, const Tensor& w) { return is_tall(w) ? product(w, p) : product(p, w); }

Tensor apply_side_plus(const Tensor& c, double scale, const Tensor& p, const Tensor& w, double factor) {
  return is_tall(w) ? product_plus(c, scale, w, p, factor) : product_plus(c, scale, p, w, factor);
}

}  // namespace bridle
