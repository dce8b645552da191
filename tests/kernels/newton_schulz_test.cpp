#include "kernels/newton_schulz.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "bridle/linalg.h"
#include "kernels/cpu.h"
#include "support.h"

namespace bridle {
namespace {

using Shape = std::pair<int64_t, int64_t>;

// One block, odd sizes, both orientations, several slots and panels.
const std::vector<Shape> kShapes = {{1, 1},    {1, 40},   {33, 65},   {40, 32},   {256, 256},
                                    {70, 700}, {530, 96}, {96, 5000}, {300, 1100}};

std::vector<NewtonSchulzStep> six_steps() {
  std::vector<NewtonSchulzStep> steps;
  for (const OddPolynomial& p : polynomials(Coefficients::six_step))
    steps.push_back({static_cast<float>(p.a), static_cast<float>(p.b), static_cast<float>(p.c)});
  return steps;
}

double relative_error(const Tensor& x, const Tensor& exact) {
  return x.to(at::kDouble).sub(exact).norm().item<double>() / exact.norm().item<double>();
}

class NewtonSchulzTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_bfloat16_products()) GTEST_SKIP() << "no products of bfloat16 on this machine";
  }
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(NewtonSchulzTest, FollowsItsTwinInFloat64) {
  for (const auto& [m, n] : kShapes) {
    const Tensor x = test::normal({m, n}, 1).to(at::kBFloat16);  // the kernel sees the same entries
    const Tensor exact = orthogonalize(x.to(at::kDouble));
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Tensor result = newton_schulz_bf16(x.to(dtype), six_steps());
      EXPECT_EQ(result.scalar_type(), dtype);
      EXPECT_LT(relative_error(result, exact), 0.015) << m << " x " << n;
    }
  }
}

TEST_F(NewtonSchulzTest, ReadsRowsOrColumnsOrNeitherInOrder) {
  const Tensor x = test::normal({70, 200}, 2, at::kFloat), expected = newton_schulz_bf16(x, six_steps());
  EXPECT_TRUE(newton_schulz_bf16(x.t().contiguous().t(), six_steps()).equal(expected));
  const Tensor wide = at::zeros({140, 400}, x.options()),
               every_other = wide.slice(0, 0, 140, 2).slice(1, 0, 400, 2);
  every_other.copy_(x);
  EXPECT_TRUE(newton_schulz_bf16(every_other, six_steps()).equal(expected));
}

TEST_F(NewtonSchulzTest, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const auto& [m, n] : {Shape{256, 3072}, {1024, 300}}) {
    const Tensor x = test::normal({m, n}, 3, at::kFloat);
    at::set_num_threads(1);
    const Tensor one = newton_schulz_bf16(x, six_steps());
    const Tensor even = add_even_polynomial_bf16(x, {-1e-6F, 1e-9F, -1e-12F});
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(newton_schulz_bf16(x, six_steps()).equal(one)) << threads;
      EXPECT_TRUE(add_even_polynomial_bf16(x, {-1e-6F, 1e-9F, -1e-12F}).equal(even)) << threads;
    }
  }
}

TEST_F(NewtonSchulzTest, RefusesWhatItCannotDivideByItsNorm) {
  const Tensor x = test::normal({40, 50}, 4, at::kFloat);
  EXPECT_FALSE(newton_schulz_bf16(at::zeros({40, 50}), six_steps()).defined());
  EXPECT_FALSE(newton_schulz_bf16(x.mul(1e-20), six_steps()).defined());
  EXPECT_FALSE(newton_schulz_bf16(x.mul(1e20), six_steps()).defined());
  x[3][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(newton_schulz_bf16(x, six_steps()).defined());
  EXPECT_FALSE(has_newton_schulz(test::normal({3, 3}, 1)));  // float64
}

// Q(A) with A on the short side.
Tensor exact_even_part(const Tensor& w, const EvenPolynomial& p) {
  const bool tall = w.size(0) > w.size(1);
  const Tensor x = tall ? w.t() : w, a = x.mm(x.t()), square = a.mm(a);
  const Tensor q = square.mul(p.square).add(square.mm(a), p.cube).add(square.mm(square), p.fourth);
  const Tensor part = q.mm(x);
  return tall ? part.t() : part;
}

TEST_F(NewtonSchulzTest, AddsAnEvenPolynomialAndKeepsTheMatrixsDigits) {
  for (const auto& [m, n] : kShapes) {
    const Tensor w =
        test::normal({m, n}, 5).div(std::sqrt(static_cast<double>(std::max(m, n)))).to(at::kFloat);
    const EvenPolynomial p{-0.03F, 0.003F, -0.0001F};
    const Tensor part = exact_even_part(w.to(at::kDouble), p);
    const Tensor added = add_even_polynomial_bf16(w, p).to(at::kDouble).sub(w.to(at::kDouble));
    const double error = added.sub(part).norm().item<double>();
    const double rounding = 1e-7 * w.norm().item<double>();  // of the result
    EXPECT_LT(error, 0.015 * part.norm().item<double>() + rounding) << m << " x " << n;
    EXPECT_TRUE(add_even_polynomial_bf16(w, {0.0F, 0.0F, 0.0F}).equal(w));
    EXPECT_TRUE(add_even_polynomial_bf16(w.t().contiguous().t(), p).equal(add_even_polynomial_bf16(w, p)));
  }
}

}  // namespace
}  // namespace bridle
