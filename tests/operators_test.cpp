#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/libtorch.h"
#include "bridle/linalg.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
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
