#include "kernels/attention.h"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

using at::Tensor;

double relative_error(const Tensor& a, const Tensor& b) {
  return a.to(at::kDouble).sub(b).norm().item<double>() / b.norm().item<double>();
}

TEST(CausalAttention, AgreesWithItsPlainTwinAndTheGradientsOfThat) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 3, 64, 32}, {1, 2, 45, 20}, {3, 1, 1, 8}, {1, 1, 200, 64}}) {
    const auto rounded = [&](uint64_t seed) { return test::normal(shape, seed).to(at::kBFloat16); };
    const Tensor q = rounded(1), k = rounded(2), v = rounded(3), d = rounded(4);
    const auto leaf = [](const Tensor& x) { return x.to(at::kDouble).requires_grad_(true); };
    const Tensor a = leaf(q), b = leaf(k), c = leaf(v);
    const Tensor expected = causal_attention_plain(a, b, c, 0.25);
    const auto gradients = torch::autograd::grad({expected}, {a, b, c}, {d.to(at::kDouble)});
    const AttentionResult seen = causal_attention(q, k, v, 0.25);
    const auto [dq, dk, dv] = causal_attention_backward(d, q, k, v, seen, 0.25);
    EXPECT_LT(relative_error(seen.out, expected.detach()), 0.006);
    if (shape[2] > 1) {  // one token alone reads itself whatever q and k are
      EXPECT_LT(relative_error(dq, gradients[0]), 0.01);
      EXPECT_LT(relative_error(dk, gradients[1]), 0.01);
    }
    EXPECT_LT(relative_error(dv, gradients[2]), 0.01);
  }
}

TEST(CausalAttention, RefusesWhatDoesNotFit) {
  const Tensor q = test::normal({1, 1, 4, 8}, 1, at::kFloat);
  EXPECT_THROW(causal_attention(q, q.narrow(2, 0, 3), q, 1.0), InputError);
  EXPECT_THROW(causal_attention(q, q, q.to(at::kDouble), 1.0), InputError);
  AttentionResult result = causal_attention(q, q, q, 1.0);
  result.log_sums = result.log_sums.to(at::kDouble);
  EXPECT_THROW(causal_attention_backward(q, q, q, q, result, 1.0), InputError);
  EXPECT_THROW(causal_attention(q.squeeze(0), q.squeeze(0), q.squeeze(0), 1.0), InputError);
}

}  // namespace
}  // namespace bridle
