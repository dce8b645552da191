#include <gtest/gtest.h>

#include <ATen/ops/zeros.h>
#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/nn.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

Param weight(const at::Tensor& values) { return {.name = "w", .tensor = values}; }

TEST(MeasuredNorms, AreNeverTooSmallAndTight) {
  const auto norms = measured_norms();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const at::Tensor matrix = test::normal({12, 20}, seed, at::kFloat);
    const double exact = test::spectral_norm(matrix);
    EXPECT_GE(norms->matrix(weight(matrix)).to_double(), exact);
    EXPECT_LE(norms->matrix(weight(matrix)).to_double(), exact * (1 + 1e-7));
    const auto heads = norms->heads(weight(matrix), 3);
    ASSERT_EQ(heads.size(), 3U);
    at::Tensor scaled = matrix.to(at::kDouble);
    std::vector<UpperBound> scales;
    for (int64_t h = 0; h < 3; ++h) {
      EXPECT_GE(heads[static_cast<size_t>(h)].to_double(), test::spectral_norm(matrix.narrow(0, 4 * h, 4)));
      scales.emplace_back(0.1 + static_cast<double>(h));
      scaled.narrow(0, 4 * h, 4).mul_(0.1 + static_cast<double>(h));
    }
    const double joint = norms->scaled_heads(weight(matrix), scales).to_double();
    EXPECT_GE(joint, test::spectral_norm(scaled));
    EXPECT_LE(joint, test::spectral_norm(scaled) * (1 + 1e-6));
    const at::Tensor vector = matrix.view({-1});
    const double length = vector.to(at::kDouble).square().sum().sqrt().item<double>();
    EXPECT_GE(norms->euclidean(weight(vector)).to_double(), length);
    EXPECT_LE(norms->euclidean(weight(vector)).to_double(), length * (1 + 1e-9));
    EXPECT_EQ(norms->largest_entry(weight(vector)).to_double(), vector.abs().max().item<double>());
  }
}

TEST(MeasuredNorms, OfScaledColumnsAreThoseOfTheProduct) {
  const auto norms = measured_norms();
  const at::Tensor matrix = test::normal({10, 12}, 4, at::kFloat);
  const std::vector<double> scales{0.5, 3.0, 1.25};
  at::Tensor scaled = matrix.to(at::kDouble).clone();
  for (int64_t h = 0; h < 3; ++h) scaled.narrow(1, 4 * h, 4).mul_(scales[static_cast<size_t>(h)]);
  const double norm = norms->scaled_columns(weight(matrix), scales).to_double();
  EXPECT_GE(norm, test::spectral_norm(scaled));
  EXPECT_LE(norm, test::spectral_norm(scaled) * (1 + 1e-7));
  EXPECT_EQ(norms->scaled_columns(weight(matrix), std::vector<double>{1.0, 1.0}),
            norms->matrix(weight(matrix)));
}

// A head with large values and a small output, and one the other way round: balanced, the bound is what each head can do.
TEST(MeasuredNorms, BalanceHeadsWhereThatHelps) {
  const auto norms = measured_norms();
  const auto heads = [](const at::Tensor& tensor, int64_t count) {
    Param param = weight(tensor);
    param.heads = count;
    return param;
  };
  at::Tensor value = at::zeros({4, 4});
  at::Tensor output = at::zeros({4, 4});
  for (int64_t i = 0; i < 4; ++i) {
    value[i][i] = i < 2 ? 8.0 : 1.0;
    output[i][i] = i < 2 ? 1.0 : 8.0;
  }
  const auto price = [&](const std::vector<double>& scales) {
    return norms->scaled_columns(weight(output), scales).to_double() *
           std::hypot(8.0 / scales[0], 1.0 / scales[1]);
  };
  const auto relative = [&](const std::vector<double>& scales) { return price(scales) / price({1.0, 1.0}); };
  const auto scales = norms->head_scales(heads(value, 2), weight(output), 2, relative);
  ASSERT_EQ(scales.size(), 2U);
  EXPECT_NEAR(price(scales), 8.0 * std::sqrt(2.0), 0.01);
  EXPECT_GT(price({1.0, 1.0}), 5.0 * price(scales));
  const std::vector<double> ones{1.0, 1.0};
  EXPECT_EQ(norms->head_scales(heads(value, 2), weight(value), 2, relative), ones);
  EXPECT_EQ(norms->head_scales(heads(at::zeros({4, 4}), 2), weight(output), 2, relative), ones);
  EXPECT_EQ(norms->head_scales(heads(value, 2), weight(output), 2, [](const auto&) { return 1.0; }), ones);
  // One head of values that serves both: the columns alone decide.
  const auto shared =
      norms->head_scales(heads(value.narrow(0, 0, 2), 1), weight(output), 2, [](const auto&) { return 0.5; });
  ASSERT_EQ(shared.size(), 2U);
  EXPECT_NEAR(shared[0], std::sqrt(8.0), 1e-3);
  EXPECT_NEAR(shared[1], 1.0, 1e-3);
}

TEST(MeasuredNorms, RefuseWhatHasNoNorm) {
  const auto norms = measured_norms();
  at::Tensor matrix = test::normal({4, 4}, 1, at::kFloat);
  matrix[1][2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_ERROR(norms->matrix(weight(matrix)), PromiseError, "no bound of w can be established");
  EXPECT_ERROR(norms->heads(weight(matrix), 2), PromiseError, "no bound of w");
  EXPECT_ERROR(norms->largest_row_rms(weight(matrix)), PromiseError, "no bound of w");
  EXPECT_ERROR(norms->largest_entry(weight(matrix)), PromiseError, "no bound of w");
  EXPECT_ERROR(norms->euclidean(weight(matrix)), PromiseError, "no bound of w");
}

}  // namespace
}  // namespace bridle
