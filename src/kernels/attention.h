// Causal attention of many heads as one operation, O = softmax(scale·QKᵀ + mask)·V, and its gradients: memory that grows with the
// length, not with its square.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace bridle {

struct AttentionResult {
  at::Tensor out;       // [B, H, T, h], bfloat16
  at::Tensor log_sums;  // [B, H, T], float32: what the gradients need besides
};

// q, k, v are [B, H, T, h] of float32 or bfloat16, rounded to the latter; on a CPU. Records no gradient. Throws InputError for
// other shapes.
AttentionResult causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale);

// dQ, dK, dV for the gradient of the result, all [B, H, T, h], bfloat16.
std::tuple<at::Tensor, at::Tensor, at::Tensor> causal_attention_backward(
    const at::Tensor& d_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const AttentionResult& result, double scale);

// The readable twin of the first, in the dtype of q, on any device and with gradients.
at::Tensor causal_attention_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  double scale);

}  // namespace bridle
