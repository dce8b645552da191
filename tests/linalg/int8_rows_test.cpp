#include "linalg/int8_rows.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

// In exact arithmetic the products are the float32 values, and no entry is farther than half a scale from its own.
TEST(Int8Rows, StandForExactlyTheirValuesAndForTheNearestOnes) {
  for (const double size : {1.0, 1e-20, 1e30, 3e-26}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const at::Tensor weight = test::normal({20, 33}, 1).mul(size).to(dtype);
      Int8Rows rows = int8_rows(weight);
      EXPECT_EQ(rows.integers.scalar_type(), at::kChar);
      for (const double factor : {1.0, 0.73}) {
        if (factor != 1.0) rows.scale_down_(factor);
        const at::Tensor exact = rows.integers.to(at::kDouble).mul(rows.scales.to(at::kDouble).unsqueeze(1));
        EXPECT_TRUE(rows.values().to(at::kDouble).equal(exact)) << size;
        const at::Tensor off = exact.div(factor).sub(weight.to(at::kDouble)).abs();
        const double room = factor == 1.0 ? 0.5000001 : 0.51;
        EXPECT_TRUE(off.le(rows.scales.to(at::kDouble).div(factor).mul(room).unsqueeze(1)).all().item<bool>())
            << size;
      }
      EXPECT_LE(rows.integers.to(at::kInt).abs().max().item<int>(), 127);
      EXPECT_EQ(rows.integers.to(at::kInt).abs().amax(1).min().item<int>(), 127);  // every row uses its range
    }
  }
}

TEST(Int8Rows, HaveNoScaleForRowsThatAreZeroOrNearly) {
  const Int8Rows rows = int8_rows(at::tensor({0.0, 0.0, 1e-40, -1e-41, 1.0, -2.0}, at::kFloat).view({3, 2}));
  EXPECT_EQ(rows.scales[0].item<float>(), 0.0F);
  EXPECT_EQ(rows.scales[1].item<float>(), 0.0F);
  EXPECT_EQ(rows.integers[1].abs().max().item<int>(), 0);
  EXPECT_EQ(rows.integers[2][1].item<int>(), -127);
  EXPECT_TRUE(rows.values().isfinite().all().item<bool>());
}

TEST(Int8Rows, AreOnlyOfFiniteMatrices) {
  EXPECT_ERROR(int8_rows(at::tensor({1.0, 2.0}, at::kFloat)), InputError, "matrices");
  const at::Tensor broken =
      at::tensor({1.0, std::numeric_limits<double>::quiet_NaN()}, at::kFloat).view({1, 2});
  EXPECT_ERROR(int8_rows(broken), InputError, "must be finite");
}

}  // namespace
}  // namespace bridle
