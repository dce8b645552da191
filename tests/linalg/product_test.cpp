#include "linalg/product.h"

#include <ATen/ops/matmul.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;
using test::normal;

class ProductTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  double tolerance(double size) const { return 8 * test::epsilon(GetParam()) * size; }
};

TEST_P(ProductTest, MatricesAndBatchesTallAndWideAgreeWithFloat64) {
  for (const bool batched : {false, true}) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{5, 33}, {33, 5}, {40, 40}, {1, 1}}) {
      const Tensor w = (batched ? normal({3, m, n}, 1) : normal({m, n}, 1)).to(GetParam());
      const Tensor wide = w.to(at::kDouble);
      const Tensor expected =
          is_tall(w) ? at::matmul(transposed(wide), wide) : at::matmul(wide, transposed(wide));
      EXPECT_LT(largest_difference(gram(w), expected), tolerance(60.0));
      const Tensor p = gram(w);
      const Tensor applied =
          is_tall(w) ? at::matmul(wide, p.to(at::kDouble)) : at::matmul(p.to(at::kDouble), wide);
      EXPECT_LT(largest_difference(apply_side(p, w), applied), tolerance(300.0));
      EXPECT_LT(largest_difference(apply_side_plus(w, -2.0, p, w, 0.5), applied.mul(0.5).sub(wide.mul(2.0))),
                tolerance(300.0));
      EXPECT_EQ(gram(w).scalar_type(), GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ProductTest, testing::Values(at::kFloat, at::kDouble, at::kBFloat16));

TEST(Product, BFloat16FactorsAreSummedInFloat32AndRoundedOnce) {
  const Tensor a = normal({64, 2048}, 2, at::kBFloat16), b = normal({2048, 48}, 3, at::kBFloat16);
  const Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
  const double size = exact.abs().max().item<double>();
  EXPECT_LT(largest_difference(product(a, b, at::kFloat), exact), 1e-5 * size);
  EXPECT_LT(largest_difference(product(a, b), exact), 0x1p-8 * size);
  const Tensor c = normal({64, 48}, 4, at::kFloat);
  EXPECT_LT(largest_difference(product_plus(c, 1.0, a, b, 1e-3), exact.mul(1e-3).add(c)), 1e-5);
}

}  // namespace
}  // namespace bridle
