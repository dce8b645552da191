// Bridle's functions as LibTorch operators (torch.ops.bridle.* once Python has loaded the library). Pure: the
// arguments are never changed.
#include "operators.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/libtorch.h"
#include "base/words.h"
#include "bridle/constraint.h"
#include "bridle/linalg.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "nn/activation.h"

namespace bridle {
namespace {

std::string version_op() { return BRIDLE_VERSION; }

Coefficients coefficients_of(const std::string& word) {
  return parse_word<Coefficients>(word, "orthogonalize", "coefficients");
}

Tensor orthogonalize_op(const Tensor& matrix, const std::string& coefficients) {
  return orthogonalize(matrix, coefficients_of(coefficients));
}

double update_bound_op(const std::string& coefficients) {
  return update_bound(coefficients_of(coefficients));
}

Tensor matrix_sign_op(const Tensor& matrix) { return matrix_sign(matrix); }

// The bound as a double, rounded up; none where there is no bound.
OperatorOptional<double> spectral_norm_bound_op(const Tensor& matrix) {
  const auto bound = spectral_norm_bound(matrix);
  return operator_optional(bound ? std::optional(bound->value.to_double()) : std::nullopt);
}

bool prove_spectral_norm_op(const Tensor& matrices, double limit) {
  return prove_spectral_norm(matrices, limit);
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

// ---- With gradients

// The kernel and its gradients. There are no second ones: asked for them it throws, and does not leave them out.
class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& q,
                                                const Tensor& k, const Tensor& v, double scale) {
    const AttentionResult result = causal_attention(q, k, v, scale);
    context->save_for_backward({q, k, v, result.out, result.log_sums});
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({result.log_sums});
    return {result.out, result.log_sums};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (at::GradMode::is_enabled())
      throw std::runtime_error(
          "InputError: [causal_attention] gradients must be taken without create_graph: the kernel has no "
          "second derivatives");
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto [dq, dk, dv] =
        causal_attention_backward(gradients[0].to(at::kBFloat16), q, k, v, {saved[3], saved[4]},
                                  context->saved_data["scale"].toDouble());
    return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type()), Tensor()};
  }
};

std::tuple<Tensor, Tensor> causal_attention_op(const Tensor& q, const Tensor& k, const Tensor& v,
                                               double scale) {
  const auto results = CausalAttention::apply(q, k, v, scale);
  return {results[0], results[1]};
}

std::tuple<Tensor, Tensor, Tensor> causal_attention_backward_op(const Tensor& d_out, const Tensor& q,
                                                                const Tensor& k, const Tensor& v,
                                                                const Tensor& out, const Tensor& log_sums,
                                                                double scale) {
  return causal_attention_backward(d_out, q, k, v, {out, log_sums}, scale);
}

// LibTorch's operators, so that gradients of any order are LibTorch's.
Tensor activation_op(const Tensor& x, const std::string& kind, double divisor) {
  const auto activation = parse_word<ActivationKind>(kind, "activation", "kind");
  if (!(divisor > 0.0))
    throw InputError("activation", "divisor must be positive, got " + std::to_string(divisor));
  if (activation == ActivationKind::maxmin && (x.dim() == 0 || x.size(-1) % 2 != 0))
    throw InputError("activation", "maxmin sorts pairs of neighbours: the last dimension must be even");
  return Activation(activation, divisor).forward(x);
}

Tensor matmul_bf16_op(const Tensor& a, const Tensor& b) { return matmul_bf16(a, b); }

TORCH_LIBRARY(bridle, library) {
  library.def("version() -> str", version_op);
  library.def("orthogonalize(Tensor matrix, str coefficients='six_step') -> Tensor",
              with_kind<orthogonalize_op>());
  library.def("update_bound(str coefficients='six_step') -> float", with_kind<update_bound_op>());
  library.def("matrix_sign(Tensor matrix) -> Tensor", with_kind<matrix_sign_op>());
  library.def("spectral_norm_estimate(Tensor matrix, int rounds=16) -> Tensor",
              with_kind<spectral_norm_estimate_op>());
  library.def("spectral_norm_bound(Tensor matrix) -> float?", with_kind<spectral_norm_bound_op>());
  library.def("prove_spectral_norm(Tensor matrices, float limit) -> bool",
              with_kind<prove_spectral_norm_op>());
  library.def(
      "constrain(Tensor weight, str method, float sigma_max, float learning_rate=0., float decay=0., "
      "float update_bound=1., int blocks=1) -> Tensor",
      with_kind<constrain_op>());
  library.def("matmul_bf16(Tensor a, Tensor b) -> Tensor", with_kind<matmul_bf16_op>());
  library.def("causal_attention(Tensor q, Tensor k, Tensor v, float scale) -> (Tensor, Tensor)",
              with_kind<causal_attention_op>());
  library.def(
      "causal_attention_backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor log_sums, "
      "float scale) "
      "-> (Tensor, Tensor, Tensor)",
      with_kind<causal_attention_backward_op>());
  library.def("activation(Tensor x, str kind, float divisor=1.) -> Tensor", with_kind<activation_op>());
  library.def("seal(Tensor weight, float sigma_max, int blocks=1) -> Tensor", with_kind<seal_op>());
}

}  // namespace
}  // namespace bridle
