// Bridle's functions as LibTorch operators (torch.ops.bridle.* once Python has loaded the library). Pure: the
// arguments are never changed.
#include <torch/library.h>

#include "base/libtorch.h"
#include "base/words.h"
#include "bridle/constraint.h"
#include "bridle/linalg.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"

namespace bridle {
namespace {

Tensor orthogonalize_op(const Tensor& matrix, const std::string& coefficients) {
  return orthogonalize(matrix, parse_word<Coefficients>(coefficients, "orthogonalize", "coefficients"));
}

// The bound as a double, rounded up; none where there is no bound.
OperatorOptional<double> spectral_norm_bound_op(const Tensor& matrix) {
  const auto bound = spectral_norm_bound(matrix);
  return operator_optional(bound ? std::optional(bound->value.to_double()) : std::nullopt);
}

Tensor spectral_norm_estimate_op(const Tensor& matrix, int64_t rounds) {
  return spectral_norm_estimate(matrix, static_cast<int>(rounds));
}

// One projection of a weight [out, in], capped at RMS→RMS norm sigma_max, after a step W ← (1 − λη)W − ηU,
// ‖U‖ ≤ b.
Tensor constrain_op(const Tensor& weight, const std::string& method, double sigma_max, double learning_rate,
                    double decay, double update_bound, int64_t blocks) {
  const Param param{.name = "weight", .tensor = weight.clone(), .blocks = blocks};
  make_constraint({.method = method})
      ->apply_(param, sigma_max,
               {.learning_rate = learning_rate, .decay = decay, .update_bound = update_bound});
  return param.tensor;
}

Tensor seal_op(const Tensor& weight, double sigma_max, int64_t blocks) {
  const Param param{.name = "weight", .tensor = weight.clone(), .blocks = blocks};
  seal_(param, sigma_max);
  return param.tensor;
}

std::tuple<Tensor, Tensor> causal_attention_op(const Tensor& q, const Tensor& k, const Tensor& v,
                                               double scale) {
  const AttentionResult result = causal_attention(q, k, v, scale);
  return {result.out, result.log_sums};
}

std::tuple<Tensor, Tensor, Tensor> causal_attention_backward_op(const Tensor& d_out, const Tensor& q,
                                                                const Tensor& k, const Tensor& v,
                                                                const Tensor& out, const Tensor& log_sums,
                                                                double scale) {
  return causal_attention_backward(d_out, q, k, v, {out, log_sums}, scale);
}

Tensor matmul_bf16_op(const Tensor& a, const Tensor& b) { return matmul_bf16(a, b); }

TORCH_LIBRARY(bridle, library) {
  library.def("orthogonalize(Tensor matrix, str coefficients='six_step') -> Tensor", orthogonalize_op);
  library.def("matrix_sign(Tensor matrix) -> Tensor", matrix_sign);
  library.def("spectral_norm_estimate(Tensor matrix, int rounds=16) -> Tensor", spectral_norm_estimate_op);
  library.def("spectral_norm_bound(Tensor matrix) -> float?", spectral_norm_bound_op);
  library.def("prove_spectral_norm(Tensor matrices, float limit) -> bool", prove_spectral_norm);
  library.def(
      "constrain(Tensor weight, str method, float sigma_max, float learning_rate=0., float decay=0., "
      "float update_bound=1., int blocks=1) -> Tensor",
      constrain_op);
  library.def("matmul_bf16(Tensor a, Tensor b) -> Tensor", matmul_bf16_op);
  library.def("causal_attention(Tensor q, Tensor k, Tensor v, float scale) -> (Tensor, Tensor)",
              causal_attention_op);
  library.def(
      "causal_attention_backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor log_sums, "
      "float scale) "
      "-> (Tensor, Tensor, Tensor)",
      causal_attention_backward_op);
  library.def("seal(Tensor weight, float sigma_max, int blocks=1) -> Tensor", seal_op);
}

}  // namespace
}  // namespace bridle
