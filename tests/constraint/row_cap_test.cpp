#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "support.h"

namespace bridle {
namespace {

TEST(RowCap, CapsEachRowAndLetsSmallRowsBe) {
  const Tensor table = test::normal({6, 16}, 1, at::kFloat);
  table[2].mul_(0.01);
  const Tensor small = table[2].clone();
  const Param embedding{.name = "e", .tensor = table, .role = Role::embedding};
  make_row_cap()->apply_(embedding, 1.0, {});
  const Tensor rms = table.to(at::kDouble).square().mean(-1).sqrt();
  EXPECT_LE(rms.max().item<double>(), 1.0 + 1e-6);
  EXPECT_TRUE(table[2].equal(small));
}

}  // namespace
}  // namespace bridle
