#include "nn/fused_products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

FusedMatrix matrix_of(const at::Tensor& x) {
  return {static_cast<std::byte*>(x.data_ptr()), x.size(1), x.stride(0),
          static_cast<int64_t>(x.element_size())};
}

class FusedProductsTest : public testing::TestWithParam<ValueType> {
 protected:
  const StepKernels& kernels() const { return step_kernels(GetParam()); }
  at::Tensor values(const at::Tensor& x) const {
    return x.to(GetParam() == ValueType::float32 ? at::kFloat : at::kBFloat16);
  }
};

// Large enough for several chunks of columns, parts of rows and depths of sums.
TEST_P(FusedProductsTest, ProductsAndGradientsComeTogetherFromTheirParts) {
  const int64_t rows = 1184, in = 1088, out = 608;
  const at::Tensor weight = test::normal({out, in}, 1, at::kFloat).to(at::kBFloat16).to(at::kFloat);
  FusedWeight fused(kernels(), {weight}, FusedWeight::Left::out);
  Arena arena;
  arena.reserve(fused.bytes() + Arena::size_of<float>(fused.sums()));
  fused.take(arena);
  float* sums = arena.take<float>(fused.sums());
  for (int64_t piece = 0; piece < fused.pack_pieces(); ++piece) fused.pack_piece(piece);
  const at::Tensor x = values(test::normal({rows, in}, 2)), d = values(test::normal({rows, out}, 3));
  for (const int threads : {1, 3}) {
    const FusedProducts ops(kernels(), Team(threads), out);
    const at::Tensor y = at::zeros({rows, out}, at::kFloat), dx = at::zeros({rows, in}, at::kFloat);
    const auto task = [](const at::Tensor& to) {
      return LinearTask{.epilogue = Epilogue::logits,
                        .stream = static_cast<float*>(to.data_ptr()),
                        .stream_stride = to.size(1)};
    };
    ops.linear(fused, FusedProducts::Way::forward, matrix_of(x), task(y), 32, rows - 32);
    ops.linear(fused, FusedProducts::Way::backward, matrix_of(d), task(dx), 0, rows);
    const at::Tensor wide = weight.to(at::kDouble);
    const at::Tensor expected = at::matmul(x.to(at::kDouble), wide.t());
    EXPECT_EQ(y.narrow(0, 0, 32).abs().max().item<double>(), 0.0);
    EXPECT_LT(test::largest_difference(y.narrow(0, 32, rows - 32), expected.narrow(0, 32, rows - 32)), 1e-3);
    EXPECT_LT(test::largest_difference(dx, at::matmul(d.to(at::kDouble), wide)), 1e-3);

    ops.add_gradient(matrix_of(d), matrix_of(x), rows, sums, false);
    ops.add_gradient(matrix_of(d), matrix_of(x), 64, sums, true);
    const at::Tensor gradient = at::empty({out, in}, at::kFloat);
    fused.unpack(Team(1), {sums}, 1.0F, {gradient});
    const auto product = [&](int64_t count) {
      return at::matmul(d.narrow(0, 0, count).to(at::kDouble).t(), x.narrow(0, 0, count).to(at::kDouble));
    };
    EXPECT_LT(test::largest_difference(gradient, product(rows).add(product(64))), 2e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, FusedProductsTest, testing::Values(ValueType::bfloat16, ValueType::float32),
                         [](const auto& values) {
                           return values.param == ValueType::float32 ? "float32" : "bfloat16";
                         });

}  // namespace
}  // namespace bridle
