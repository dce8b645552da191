// See product.h.
#include "linalg/product.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "kernels/matmul.h"

namespace bridle {

Tensor product(const Tensor& a, const Tensor& b, at::ScalarType dtype) {
  if (a.scalar_type() == at::kBFloat16) return matmul_bf16(a, b, {.dtype = dtype});
  return (a.dim() == 2 ? at::mm(a, b) : at::bmm(a, b)).to(dtype);
}

Tensor product(const Tensor& a, const Tensor& b) { return product(a, b, a.scalar_type()); }

Tensor product_plus(const Tensor& c, double scale, const Tensor& a, const Tensor& b, double factor) {
  if (a.scalar_type() == at::kBFloat16) {
    return matmul_bf16(a, b, {.dtype = c.scalar_type(), .factor = factor, .addend = c, .scale = scale});
  }
  return a.dim() == 2 ? at::addmm(c, a, b, scale, factor) : at::baddbmm(c, a, b, scale, factor);
}

Tensor gram(const Tensor& a, at::ScalarType dtype) {
  return is_tall(a) ? product(transposed(a), a, dtype) : product(a, transposed(a), dtype);
}

Tensor apply_side(const Tensor& p, const Tensor& w) { return is_tall(w) ? product(w, p) : product(p, w); }

Tensor apply_side_plus(const Tensor& c, double scale, const Tensor& p, const Tensor& w, double factor) {
  return is_tall(w) ? product_plus(c, scale, w, p, factor) : product_plus(c, scale, p, w, factor);
}

}  // namespace bridle
