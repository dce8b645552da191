#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/libtorch.h"
#include "base/words.h"
#include "bridle/linalg.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "nn/activation.h"
#include "support.h"

namespace bridle {
namespace {

template <class Signature>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

TEST(Operators, AreRegisteredAndGiveTheLibrarysResults) {
  const Tensor w = test::normal({12, 30}, 1, at::kFloat);
  const auto orthogonalize_op = find<Tensor(const Tensor&, const std::string&)>("bridle::orthogonalize");
  EXPECT_TRUE(orthogonalize_op.call(w, "five_step").equal(orthogonalize(w, Coefficients::five_step)));
  EXPECT_ANY_THROW(orthogonalize_op.call(w, "fivestep"));
  const auto bound_op = find<OperatorOptional<double>(const Tensor&)>("bridle::spectral_norm_bound");
  EXPECT_EQ(*bound_op.call(w), spectral_norm_bound(w)->value.to_double());
  EXPECT_FALSE(bound_op.call(w.mul(std::nan(""))).has_value());
  const auto prove_op = find<bool(const Tensor&, double)>("bridle::prove_spectral_norm");
  EXPECT_TRUE(prove_op.call(w, 2 * test::spectral_norm(w)));
  const auto estimate_op = find<Tensor(const Tensor&, int64_t)>("bridle::spectral_norm_estimate");
  EXPECT_TRUE(estimate_op.call(w, 5).equal(spectral_norm_estimate(w, 5)));
}

TEST(Operators, KernelsAreThereToo) {
  const Tensor q = test::normal({1, 2, 5, 8}, 1, at::kFloat);
  const auto attention =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, double)>(
          "bridle::causal_attention");
  const auto [out, log_sums] = attention.call(q, q, q, 0.5);
  EXPECT_TRUE(out.equal(causal_attention(q, q, q, 0.5).out));
  EXPECT_EQ(log_sums.sizes(), at::IntArrayRef({1, 2, 5}));
  const auto product = find<Tensor(const Tensor&, const Tensor&)>("bridle::matmul_bf16");
  EXPECT_TRUE(product.call(q[0][0], q[0][1].t()).equal(matmul_bf16(q[0][0], q[0][1].t())));
}

// Their kind stands before the message, for Python to read.
TEST(Operators, ErrorsKeepTheirKind) {
  const auto message_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const Tensor w = test::normal({4, 4}, 1, at::kFloat);
  const auto orthogonalize_op = find<Tensor(const Tensor&, const std::string&)>("bridle::orthogonalize");
  EXPECT_EQ(
      message_of([&] { orthogonalize_op.call(w, "none"); }),
      "InputError: [orthogonalize] coefficients must be one of six_step, five_step, classic, got 'none'");
  const auto seal_op = find<Tensor(const Tensor&, double, int64_t)>("bridle::seal");
  EXPECT_TRUE(
      message_of([&] { seal_op.call(w.mul(std::nan("")), 1.0, 1); }).starts_with("PromiseError: [seal]"));
  using Constrain = Tensor(const Tensor&, const std::string&, double, double, double, double, int64_t);
  const auto constrain_op = find<Constrain>("bridle::constrain");
  EXPECT_TRUE(message_of([&] {
                constrain_op.call(w.mul(std::nan("")), "normalize", 1.0, 0.1, 0.0, 1.0, 1);
              }).starts_with("NumericError: ["));
  EXPECT_EQ(find<std::string()>("bridle::version").call(), BRIDLE_VERSION);
  EXPECT_EQ(find<double(const std::string&)>("bridle::update_bound").call("classic"),
            update_bound(Coefficients::classic));
}

TEST(Operators, AttentionHasTheGradientsOfItsPlainTwin) {
  const auto attention =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, double)>(
          "bridle::causal_attention");
  std::vector<Tensor> own, twin;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    own.push_back(test::normal({2, 2, 37, 16}, seed, at::kFloat).requires_grad_(true));
    twin.push_back(own.back().detach().clone().requires_grad_(true));
  }
  const Tensor weight = test::normal({2, 2, 37, 16}, 4, at::kFloat);
  const auto [out, log_sums] = attention.call(own[0], own[1], own[2], 0.25);
  EXPECT_FALSE(log_sums.requires_grad());
  const auto gradients = torch::autograd::grad({out.to(at::kFloat).mul(weight).sum()}, own);
  const Tensor plain = causal_attention_plain(twin[0], twin[1], twin[2], 0.25);
  const auto expected = torch::autograd::grad({plain.mul(weight).sum()}, twin);
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(gradients[i].scalar_type(), at::kFloat);
    EXPECT_LT(gradients[i].sub(expected[i]).norm().item<double>(), 0.02 * expected[i].norm().item<double>());
  }
  const auto again = attention.call(own[0], own[1], own[2], 0.25);
  EXPECT_ANY_THROW(torch::autograd::grad({std::get<0>(again).to(at::kFloat).sum()}, own, {}, true, true));
}

TEST(Operators, ActivationIsTheModules) {
  const auto activation = find<Tensor(const Tensor&, const std::string&, double)>("bridle::activation");
  const Tensor x = test::normal({3, 8}, 1, at::kFloat);
  for (const ActivationKind kind : all_values<ActivationKind>())
    EXPECT_TRUE(activation.call(x, word(kind), 1.5).equal(Activation(kind, 1.5).forward(x)));
  EXPECT_ANY_THROW(activation.call(x.narrow(1, 0, 7), "maxmin", 1.0));
  EXPECT_ANY_THROW(activation.call(x, "relu", -1.0));
}

TEST(Operators, ConstrainAndSealLeaveTheirArgumentAlone) {
  const Tensor w = test::normal({12, 12}, 1, at::kFloat);
  const Tensor before = w.clone();
  using Constrain = Tensor(const Tensor&, const std::string&, double, double, double, double, int64_t);
  const Tensor capped = find<Constrain>("bridle::constrain").call(w, "pure_svd", 1.0, 0.1, 0.0, 1.0, 2);
  EXPECT_NEAR(test::spectral_norm(capped.narrow(0, 0, 6)), std::sqrt(0.5), 1e-5);
  const Tensor sealed = find<Tensor(const Tensor&, double, int64_t)>("bridle::seal").call(w, 1.0, 1);
  EXPECT_TRUE(prove_spectral_norm(sealed, 1.0));
  EXPECT_TRUE(w.equal(before));
}

}  // namespace
}  // namespace bridle
