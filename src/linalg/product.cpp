// See product.h.
#include "linalg/product.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "kernels/matmul.h"

namespace bridle {

Tensor product(const Tensor& a, const Tensor& b, at::ScalarType dtype) {
  if (a.scalar_type() == at::kBFloat16) {
    return matmul_bf16(a, b, {.dtype = dtype == at::kDouble ? at::kFloat : dtype}).to(dtype);
  }
  return (a.dim() == 2 ? at::mm(a, b) : at::bmm(a, b)).to(dtype);
}

Tensor product(const Tensor& a, const Tensor& b) { return product(a, b, a.scalar_type()); }

Tensor product_plus(const Tensor& c, double scale, const Tensor& a, const Tensor& b, double factor) {
  const auto sum = c.scalar_type(), factors = a.scalar_type();
  if (factors == at::kBFloat16 && sum != at::kDouble) {
    return matmul_bf16(a, b, {.dtype = sum, .factor = factor, .addend = c, .scale = scale});
  }
  if (factors == sum)
    return a.dim() == 2 ? at::addmm(c, a, b, scale, factor) : at::baddbmm(c, a, b, scale, factor);
  // Mixed types: c keeps its digits where it is the wider one, and is rounded once where it is not.
  const auto wider = sum == at::kDouble || factors == at::kDouble ? at::kDouble : at::kFloat;
  return c.to(wider).mul(scale).add(product(a, b, wider), factor).to(sum);
}

Tensor gram(const Tensor& a, at::ScalarType dtype) {
  return is_tall(a) ? product(transposed(a), a, dtype) : product(a, transposed(a), dtype);
}

Tensor apply_side(const Tensor& p, const Tensor& w) { return is_tall(w) ? product(w, p) : product(p, w); }

Tensor apply_side_plus(const Tensor& c, double scale, const Tensor& p, const Tensor& w, double factor) {
  return is_tall(w) ? product_plus(c, scale, w, p, factor) : product_plus(c, scale, p, w, factor);
}

}  // namespace bridle
