#include "optim/embedding.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

TEST(NormalizeRows, BringsRowsToRmsOneButMultipliesByAtMostTheLimit) {
  const Tensor rows = at::tensor({3.0, 4.0,      // RMS √12.5
                                  0.125, 0.125,  // multiplied by 8
                                  0.03125, 0.0,  // would need more than 16
                                  0.0, 0.0},
                                 at::kDouble)
                          .view({4, 2});
  const double root = std::sqrt(12.5);
  const Tensor expected =
      at::tensor({3.0 / root, 4.0 / root, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0}, at::kDouble).view({4, 2});
  EXPECT_LT(test::largest_difference(normalize_rows(rows, 16.0), expected), 1e-15);
  EXPECT_EQ(rows[0][0].item<double>(), 3.0);
}

TEST(NormalizeRows, TheLimitIsWhereItsRmsSaysAndNotItsNorm) {
  const Tensor row = at::tensor({0.0625, 0.0625, 0.0625, 0.0625}, at::kDouble).view({1, 4});
  EXPECT_EQ(normalize_rows(row, 16.0)[0][0].item<double>(), 1.0);
  EXPECT_EQ(normalize_rows(row.div(2.0), 16.0)[0][0].item<double>(), 0.5);
}

TEST(NormalizeRows, RowsWhoseSquaresOverflowAreNormalizedAllTheSame) {
  const Tensor rows = at::tensor({3e25F, 4e25F, 1e-25F, 0.0F}).view({2, 2});
  const Tensor normal = normalize_rows(rows, 16.0);
  EXPECT_NEAR(normal[0][0].item<double>(), 3.0 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(normal[1][0].item<double>(), 16e-25, 1e-30);
}

}  // namespace
}  // namespace bridle
