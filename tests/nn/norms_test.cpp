#include <gtest/gtest.h>

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
