#include "kernels/matmul.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "bridle/error.h"
#include "kernels/cpu.h"
#include "support.h"

namespace bridle {
namespace {

using at::Tensor;
using test::largest_difference;
using test::normal;

Tensor rounded(const Tensor& t) { return t.to(at::kBFloat16).to(at::kDouble); }

// What the contract promises, in float64.
Tensor exact(const Tensor& a, const Tensor& b, const MatmulOptions& options = {}) {
  const Tensor product = at::matmul(rounded(a), rounded(b)).mul(options.factor);
  return options.addend ? options.addend->to(at::kDouble).mul(options.scale).add(product) : product;
}

// The largest error relative to |factor|·|a|·|b| + |scale|·|addend|, to which rounding is proportional.
double relative_error(const Tensor& result, const Tensor& a, const Tensor& b,
                      const MatmulOptions& options = {}) {
  MatmulOptions sizes{.factor = std::abs(options.factor), .scale = std::abs(options.scale)};
  if (options.addend) sizes.addend = options.addend->abs();
  const Tensor size = exact(a.abs(), b.abs(), sizes);
  return result.to(at::kDouble).sub(exact(a, b, options)).abs().div(size).max().item<double>();
}

// float32 sums of up to a few thousand terms, then one rounding to at most half a unit in the last place.
double tolerance(at::ScalarType dtype) { return dtype == at::kFloat ? 2e-6 : 0x1p-8 + 2e-6; }

// Like `t`, but consecutive along the columns.
Tensor column_major(const Tensor& t) { return t.transpose(-2, -1).contiguous().transpose(-2, -1); }

// Of the plain twin only accuracy is promised.
#define BRIDLE_SKIP_WITHOUT_AMX() \
  if (!has_bfloat16_products()) GTEST_SKIP() << "the order of sums is not ours here"

class MatmulTest : public testing::TestWithParam<std::tuple<at::ScalarType, at::ScalarType>> {
 protected:
  at::ScalarType input() const { return std::get<0>(GetParam()); }
  at::ScalarType output() const { return std::get<1>(GetParam()); }
};

TEST_P(MatmulTest, EverySizeAgreesWithFloat64) {
  const int64_t sizes[] = {1, 15, 16, 17, 31, 33, 64, 100};
  uint64_t seed = 1;
  for (const int64_t m : sizes) {
    for (const int64_t n : sizes) {
      for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{31}, int64_t{33}, int64_t{100}, int64_t{257}}) {
        const Tensor a = normal({m, k}, ++seed, input()), b = normal({k, n}, ++seed, input());
        const Tensor c = matmul_bf16(a, b, {.dtype = output()});
        ASSERT_EQ(c.scalar_type(), output());
        ASSERT_LT(relative_error(c, a, b), tolerance(output())) << m << " " << k << " " << n;
      }
    }
  }
}

TEST_P(MatmulTest, TransposedFactorsGiveTheSameBits) {
  BRIDLE_SKIP_WITHOUT_AMX();
  for (const auto& [m, k, n] :
       {std::tuple<int64_t, int64_t, int64_t>{33, 65, 50}, {100, 257, 31}, {257, 1500, 129}}) {
    const Tensor a = normal({m, k}, 1, input()), b = normal({k, n}, 2, input());
    const Tensor expected = matmul_bf16(a, b, {.dtype = output()});
    EXPECT_LT(relative_error(expected, a, b), tolerance(output()));
    EXPECT_TRUE(at::equal(matmul_bf16(column_major(a), b, {.dtype = output()}), expected));
    EXPECT_TRUE(at::equal(matmul_bf16(a, column_major(b), {.dtype = output()}), expected));
    EXPECT_TRUE(at::equal(matmul_bf16(column_major(a), column_major(b), {.dtype = output()}), expected));
  }
}

TEST_P(MatmulTest, FactorAddendAndScaleAgreeWithFloat64) {
  for (const int64_t k : {70, 2100}) {
    const Tensor a = normal({67, k}, 1, input()), b = normal({k, 45}, 2, input());
    for (const auto addend_dtype : {at::kFloat, at::kBFloat16}) {
      const Tensor addend = normal({67, 45}, 3, addend_dtype).mul(50.0);
      for (const Tensor& view : {addend, column_major(addend), addend[0].expand({67, 45})}) {
        const MatmulOptions options{.dtype = output(), .factor = -0.37, .addend = view, .scale = 2.5};
        EXPECT_LT(relative_error(matmul_bf16(a, b, options), a, b, options), tolerance(output()));
        EXPECT_LT(relative_error(matmul_bf16_plain(a, b, options), a, b, options), tolerance(output()));
      }
    }
  }
}

TEST_P(MatmulTest, BatchesAgreeWithTheirMatrices) {
  BRIDLE_SKIP_WITHOUT_AMX();
  for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{33, 70, 40}, {400, 390, 410}}) {
    const Tensor a = normal({3, m, k}, 1, input()), b = normal({3, k, n}, 2, input());
    const Tensor addend = normal({3, m, n}, 3, output());
    const Tensor c = matmul_bf16(a, b, {.dtype = output(), .addend = addend});
    const Tensor transposed =
        matmul_bf16(column_major(a), column_major(b), {.dtype = output(), .addend = addend});
    EXPECT_TRUE(at::equal(c, transposed));
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(at::equal(c[i], matmul_bf16(a[i], b[i], {.dtype = output(), .addend = addend[i]})));
    }
    EXPECT_TRUE(at::equal(matmul_bf16(a[0].expand({3, m, k}), b)[1], matmul_bf16(a[0], b[1])));
  }
}

TEST_P(MatmulTest, SlicedViewsGiveTheBitsOfTheirCopies) {
  BRIDLE_SKIP_WITHOUT_AMX();
  const Tensor wide = normal({300, 400}, 1, input());
  const Tensor views[] = {wide.slice(0, 7, 140), wide.slice(1, 5, 138).slice(0, 0, 133),
                          wide.slice(0, 0, 266, 2), wide.slice(1, 0, 266, 2).slice(0, 0, 133),
                          wide.t().slice(0, 3, 136).slice(1, 1, 134)};
  for (const Tensor& view : views) {
    const Tensor copy = view.contiguous(), other = normal({view.size(1), 47}, 2, input());
    EXPECT_TRUE(at::equal(matmul_bf16(view, other), matmul_bf16(copy, other)));
    EXPECT_TRUE(at::equal(matmul_bf16(other.t(), view.t()), matmul_bf16(other.t(), copy.t())));
    EXPECT_LT(relative_error(matmul_bf16(view, other), view, other), tolerance(at::kFloat));
  }
}

TEST_P(MatmulTest, GramMatricesAgreeWithProductsOfCopiesBitForBit) {
  BRIDLE_SKIP_WITHOUT_AMX();
  for (const auto& [m, k] :
       {std::pair<int64_t, int64_t>{1, 5}, {33, 40}, {100, 33}, {257, 1500}, {700, 1100}}) {
    const Tensor w = normal({m, k}, 1, input()), addend = normal({m, m}, 2, output());
    for (const Tensor& view : {w, column_major(w)}) {
      const MatmulOptions options{.dtype = output(), .factor = 0.5, .addend = addend, .scale = -2.0};
      EXPECT_TRUE(
          at::equal(matmul_bf16(view, view.t(), options), matmul_bf16(view, view.t().clone(), options)));
    }
    const Tensor batch = normal({2, m, k}, 3, input()), mirrored = batch.transpose(1, 2);
    EXPECT_TRUE(at::equal(matmul_bf16(batch, mirrored), matmul_bf16(batch, mirrored.clone())));
  }
}

TEST_P(MatmulTest, TheNumberOfThreadsChangesNoBit) {
  BRIDLE_SKIP_WITHOUT_AMX();
  const int before = at::get_num_threads();
  for (const auto& [m, k, n] :
       {std::tuple<int64_t, int64_t, int64_t>{20, 1300, 900}, {130, 5000, 140}, {900, 640, 33}}) {
    const Tensor a = normal({m, k}, 1, input()), b = normal({k, n}, 2, input());
    const Tensor batch_a = a.expand({5, m, k}), batch_b = b.expand({5, k, n});
    std::vector<Tensor> single, batched, gram;
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      single.push_back(matmul_bf16(a, b, {.dtype = output()}));
      batched.push_back(matmul_bf16(batch_a, batch_b, {.dtype = output()}));
      gram.push_back(matmul_bf16(a, a.t(), {.dtype = output()}));
    }
    for (size_t i = 1; i < single.size(); ++i) {
      EXPECT_TRUE(at::equal(single[i], single[0]));
      EXPECT_TRUE(at::equal(batched[i], batched[0]));
      EXPECT_TRUE(at::equal(gram[i], gram[0]));
    }
    EXPECT_TRUE(at::equal(batched[0][4], single[0]));
  }
  at::set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16),
                                          testing::Values(at::kFloat, at::kBFloat16)));

TEST(Matmul, SmallIntegersAreExact) {
  const Tensor a = normal({70, 90}, 1, at::kFloat).mul(4.0).round(),
               b = normal({90, 50}, 2, at::kFloat).mul(4.0).round();
  EXPECT_TRUE(at::equal(matmul_bf16(a, b), at::matmul(a, b)));
  EXPECT_TRUE(at::equal(matmul_bf16(a, b), matmul_bf16_plain(a, b)));
}

TEST(Matmul, FactorsAreRoundedToNearestEven) {
  const float tie_to_even = 1.0f + 0x1p-8f, tie_up = 1.0f + 3 * 0x1p-8f, above = 1.0f + 0x1p-8f + 0x1p-20f;
  const Tensor one = at::full({1, 1}, 1.0f);
  for (const auto& product : {matmul_bf16, matmul_bf16_plain}) {
    const auto round = [&](float x) { return product(at::full({1, 1}, x), one, {}).item<float>(); };
    EXPECT_EQ(round(tie_to_even), 1.0f);
    EXPECT_EQ(round(tie_up), 1.0f + 0x1p-6f);
    EXPECT_EQ(round(above), 1.0f + 0x1p-7f);
  }
}

TEST(Matmul, NanAndInfReachTheirRowsAndColumnsAndNoOthers) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor a = normal({40, 37}, 1, dtype).abs().add(1.0), b = normal({37, 45}, 2, dtype).abs().add(1.0);
    a[5][36] = nan;
    a[39][3] = inf;
    b[36][44] = -inf;
    const Tensor c = matmul_bf16(a, b, {.dtype = dtype}).to(at::kDouble);
    EXPECT_TRUE(c[5].isnan().all().item<bool>());
    EXPECT_TRUE(c[39].slice(0, 0, 44).eq(inf).all().item<bool>());
    EXPECT_TRUE(c[39][44].isnan().item<bool>());
    EXPECT_EQ(c.isfinite().sum().item<int64_t>(), 38 * 44);
  }
}

TEST(Matmul, AnAddendWithScaleZeroIsNotRead) {
  const Tensor a = normal({20, 30}, 1, at::kFloat), b = normal({30, 20}, 2, at::kFloat);
  const Tensor nan = at::full({20, 20}, std::numeric_limits<float>::quiet_NaN());
  for (const auto& product : {matmul_bf16, matmul_bf16_plain}) {
    const MatmulOptions options{.addend = nan, .scale = 0.0};
    EXPECT_TRUE(at::equal(product(a, b, options), product(a, b, {})));
  }
}

TEST(Matmul, EmptyFactorsGiveTheAddendOrZeros) {
  EXPECT_EQ(matmul_bf16(at::zeros({0, 5}), at::zeros({5, 3})).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_TRUE(at::equal(matmul_bf16(at::zeros({2, 0}), at::zeros({0, 3})), at::zeros({2, 3})));
  const Tensor addend = normal({2, 3}, 1, at::kFloat);
  EXPECT_TRUE(at::equal(matmul_bf16(at::zeros({2, 0}), at::zeros({0, 3}), {.addend = addend, .scale = 2.0}),
                        addend.mul(2.0)));
}

TEST(Matmul, InputsStayAsTheyAreAndNoGradientIsRecorded) {
  const Tensor a = normal({33, 40}, 1, at::kFloat).requires_grad_(), copy = a.detach().clone();
  for (const auto& product : {matmul_bf16, matmul_bf16_plain}) {
    EXPECT_FALSE(product(a, a.t(), {.addend = normal({33, 33}, 2, at::kFloat)}).requires_grad());
  }
  EXPECT_TRUE(at::equal(a, copy));
}

TEST(Matmul, WhatDoesNotFitIsAnError) {
  const Tensor a = at::zeros({4, 5}), b = at::zeros({5, 6});
  for (const auto& product : {matmul_bf16, matmul_bf16_plain}) {
    EXPECT_THROW(product(a, a, {}), InputError);
    EXPECT_THROW(product(a, b.unsqueeze(0), {}), InputError);
    EXPECT_THROW(product(a[0], b, {}), InputError);
    EXPECT_THROW(product(a.expand({2, 4, 5}), b.expand({3, 5, 6}), {}), InputError);
    EXPECT_THROW(product(a.to(at::kDouble), b, {}), InputError);
    EXPECT_THROW(product(a, b, {.dtype = at::kDouble}), InputError);
    EXPECT_THROW(product(a, b, {.addend = at::zeros({6})}), InputError);
    EXPECT_THROW(product(a, b, {.addend = at::zeros({4, 6}, at::kDouble)}), InputError);
  }
}

}  // namespace
}  // namespace bridle
