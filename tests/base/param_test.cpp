#include "bridle/param.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "bridle/error.h"

namespace bridle {
namespace {

TEST(Param, BlockViewSharesMemoryAlsoWithAFusedMatrix) {
  const Tensor fused = at::zeros({12, 4});
  const Param key{.name = "k", .tensor = fused.narrow(0, 4, 4), .role = Role::key, .blocks = 2};
  const Tensor blocks = key.block_view();
  EXPECT_EQ(blocks.sizes(), (at::IntArrayRef{2, 2, 4}));
  blocks[1].fill_(7.0);
  EXPECT_EQ(fused[6][0].item<float>(), 7.0F);
  EXPECT_EQ(fused[5][0].item<float>(), 0.0F);
}

TEST(Param, UnitIsTheSpectralNormOfRmsNormOnePerBlock) {
  EXPECT_DOUBLE_EQ((Param{.name = "w", .tensor = at::zeros({8, 2})}.unit()), 2.0);
  EXPECT_DOUBLE_EQ((Param{.name = "w", .tensor = at::zeros({8, 2}), .blocks = 4}.unit()), 1.0);
  EXPECT_DOUBLE_EQ((Param{.name = "w", .tensor = at::zeros({8, 2}), .fan_in = 32, .fan_out = 8}.unit()), 0.5);
}

TEST(Param, RefusesShapesThatDoNotDivide) {
  EXPECT_THROW((Param{.name = "w", .tensor = at::zeros({6, 2}), .blocks = 4}.block_view()), InputError);
  EXPECT_THROW((Param{.name = "w", .tensor = at::zeros({6})}.block_view()), InputError);
  EXPECT_THROW((Param{.name = "w", .tensor = at::zeros({0, 3})}.block_view()), InputError);
}

TEST(Role, SeparatesMatricesTablesAndTheRest) {
  EXPECT_TRUE(is_matrix(Role::head));
  EXPECT_TRUE(is_matrix(Role::linear));
  EXPECT_FALSE(is_matrix(Role::embedding));
  EXPECT_TRUE(is_table(Role::position_embedding));
  EXPECT_FALSE(is_table(Role::gain));
  EXPECT_STREQ(role_name(Role::mlp_down), "mlp_down");
}

TEST(StepInfo, ReachIsDecayedNormPlusUpdateRoundedUp) {
  EXPECT_EQ((StepInfo{.learning_rate = 0.5, .decay = 0.5, .update_bound = 1.0}.reach(2.0)), 2.0);
  EXPECT_EQ((StepInfo{.learning_rate = 0.0, .update_bound = 1.0}.reach(3.0)), 3.0);
  // A decay beyond 1 turns the sign: |1 − λη| counts.
  EXPECT_EQ((StepInfo{.learning_rate = 4.0, .decay = 1.0, .update_bound = 0.25}.reach(1.0)), 4.0);
  EXPECT_GE((StepInfo{.learning_rate = 0.1, .decay = 0.3, .update_bound = 1.0}.reach(0.7)), 0.7 * 0.97 + 0.1);
  EXPECT_FALSE(StepInfo{.learning_rate = 0.1}.has_update_bound());
}

}  // namespace
}  // namespace bridle
