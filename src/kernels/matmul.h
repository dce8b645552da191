// Matrix products of bfloat16 factors with float32 sums: scale·addend + factor·a·b.
// In tiles where has_bfloat16_products(); elsewhere, and on other devices, the plain twin.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace bridle {

struct MatmulOptions {
  at::ScalarType dtype = at::kFloat;  // of the result: kFloat or kBFloat16, rounded once
  double factor = 1.0;
  // float32 or bfloat16, in the shape of the result; not read where scale is 0
  std::optional<at::Tensor> addend = std::nullopt;
  double scale = 1.0;
};

// [m, k]·[k, n] or batches [b, m, k]·[b, k, n], float32 or bfloat16, any strides; float32 factors are rounded
// to bfloat16. Denormals may count as zero. Records no gradient. In tiles the order of a sum depends on k
// alone: neither threads, strides nor batches change a bit; and a·aᵀ, known by its memory, takes half the
// work.
at::Tensor matmul_bf16(const at::Tensor& a, const at::Tensor& b, const MatmulOptions& options = {});

// The readable twin: the same contract, but for the order of the sums, which is the library's.
at::Tensor matmul_bf16_plain(const at::Tensor& a, const at::Tensor& b, const MatmulOptions& options = {});

}  // namespace bridle
