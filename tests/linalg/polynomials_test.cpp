#include <ATen/ops/linspace.h>
#include <gtest/gtest.h>

#include <array>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "linalg/polynomials.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;
using test::map_singular_values;

const std::array<OddPolynomial, 3> kList = {{{1.5, -0.7, 0.1}, {0.8, 0.2, -0.05}, {1.2, -0.1, 0.0}}};

double composed(double x) {
  for (const OddPolynomial& p : kList) x = p(x);
  return x;
}

TEST(ApplyPolynomials, ActsOnSingularValuesForEveryShape) {
  // Beyond 1.5 : 1 or so they run in Gram space, the others directly.
  for (const auto& [m, n] :
       {std::pair<int64_t, int64_t>{20, 20}, {20, 24}, {24, 20}, {8, 64}, {64, 8}, {1, 7}, {7, 1}}) {
    const Tensor w = test::matrix_with_spectrum(at::linspace(0.0, 1.4, std::min(m, n), at::kDouble), m, n, 3);
    EXPECT_LT(largest_difference(apply_polynomials(w, kList), map_singular_values(w, composed)), 1e-13);
    EXPECT_LT(
        largest_difference(apply_polynomials(w.to(at::kFloat), kList), map_singular_values(w, composed)),
        2e-6);
  }
}

TEST(ApplyPolynomials, BatchesAreTreatedMatrixByMatrix) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{12, 12}, {6, 40}}) {
    const Tensor batch = test::normal({3, m, n}, 1).mul(0.1);
    const Tensor together = apply_polynomials(batch, kList);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_LT(largest_difference(together[i], apply_polynomials(batch[i], kList)), 1e-14);
    }
  }
}

TEST(ApplyPolynomials, BFloat16ProductsOnAFloat32WeightKeepItsDigits) {
  // x − αx³ with a small α: the weight itself is not rounded to bfloat16, only the correction is.
  const std::array<OddPolynomial, 2> soft = {{{1.0, -1e-3, 0.0}, {1.0, 1e-3, 0.0}}};
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{32, 32}, {16, 256}}) {
    const Tensor w = test::matrix_with_spectrum(at::linspace(0.1, 1.0, 16, at::kDouble)
                                                    .expand({2, 16})
                                                    .reshape({-1})
                                                    .narrow(0, 0, std::min(m, n)),
                                                m, n, 5)
                         .to(at::kFloat);
    const Tensor expected = map_singular_values(w, [&](double x) { return soft[1](soft[0](x)); });
    EXPECT_LT(largest_difference(apply_polynomials(w, soft, at::kBFloat16), expected), 2e-5);
    EXPECT_EQ(apply_polynomials(w, soft, at::kBFloat16).scalar_type(), at::kFloat);
  }
}

TEST(CountProducts, TwoWideProductsDoForWideMatricesInsteadOfTwelve) {
  const auto list = polynomials(Coefficients::six_step);
  const ProductCounts wide = count_products(test::normal({16, 192}, 1), list, at::kDouble);
  EXPECT_TRUE(wide.in_gram_space);
  EXPECT_EQ(wide.wide, 2);
  EXPECT_EQ(wide.small, 21);
  const ProductCounts square = count_products(test::normal({16, 16}, 1), list, at::kDouble);
  EXPECT_FALSE(square.in_gram_space);
  EXPECT_EQ(square.wide, 12);
  EXPECT_EQ(square.small, 6);
}

TEST(ApplyPolynomials, LeavesItsArgumentAlone) {
  const Tensor w = test::normal({6, 9}, 1);
  const Tensor before = w.clone();
  apply_polynomials(w, kList);
  EXPECT_TRUE(w.equal(before));
  const Tensor copy = apply_polynomials(w, {});
  copy.zero_();
  EXPECT_TRUE(w.equal(before));
  EXPECT_THROW(apply_polynomials(w[0], kList), InputError);
}

}  // namespace
}  // namespace bridle
