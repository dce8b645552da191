// Tensors as the factors of products on tiles.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/matmul_amx.h"

namespace bridle {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline amx::Element element_of(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat ? amx::Element::float32 : amx::Element::bfloat16;
}

// A view or copy in which the rows or the columns are consecutive.
inline at::Tensor with_unit_stride(const at::Tensor& t) {
  return t.stride(-1) == 1 || t.stride(-2) == 1 ? t : t.contiguous();
}

}  // namespace bridle
