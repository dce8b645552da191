#include "nn/fused_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/fused_group.h"
#include "support.h"

namespace bridle {
namespace {

TEST(FusedAttention, PositionBiasesStandByOffsetFromTheEnd) {
  const Param bias{.name = "bias", .tensor = at::arange(20, at::kFloat).view({4, 5})};
  FusedProgram program({bias}, step_kernels_plain());
  const FusedHeads heads{.query = {0, 4}, .key = {32, 4}, .value = {64, 4}, .head_size = 8};
  FusedAttention attention(program, {.heads = heads, .position_bias = bias});
  attention.set_rows(program, 32);
  attention.read_tables(program);
  const float* table = attention.bias_of(2);  // head 2: 10 … 14
  EXPECT_EQ(table[31], 10.0F);
  EXPECT_EQ(table[28], 13.0F);
  EXPECT_EQ(table[27], 14.0F);
  EXPECT_EQ(table[0], 14.0F);
  EXPECT_EQ(program.sums_infos()[0].count, 4 * 2 * 32);
}

TEST(FusedRope, RotatesQueriesAndKeysAndBackAgain) {
  FusedProgram program({}, step_kernels_plain());
  FusedHeads heads{.query = {0, 4}, .key = {32, 2}, .value = {64, 2}, .head_size = 8};
  heads.qkv = heads.d_qkv = program.matrix(96);
  program.add(std::make_unique<FusedRope>(heads, RopeOptions{.head_size = 8, .theta = 100.0}));
  program.finish();
  const FusedShape shape{.batch = 2, .length = 32, .rows = 32, .group = 2, .shared = true, .slots = 1};
  program.set_rows(32);
  FusedGroup group(program, shape, Team(2), true);
  const FusedMatrix qkv = group.matrix(heads.qkv);
  const auto fill = [&](int64_t row, int64_t column, float value) {
    const uint32_t bits = [&] {
      uint32_t b;
      std::memcpy(&b, &value, 4);
      return b;
    }();
    reinterpret_cast<Bfloat16*>(qkv.row(row))[column] = static_cast<Bfloat16>(bits >> 16U);
  };
  const auto at = [&](int64_t row, int64_t column) {
    const uint32_t bits = uint32_t{reinterpret_cast<const Bfloat16*>(qkv.row(row))[column]} << 16U;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  };
  for (int64_t row = 0; row < 64; ++row)
    for (int64_t column = 0; column < 96; ++column) fill(row, column, 1.0F);
  const FusedPart all{0, 2, 0, 64};
  const FusedOperation& rope = *program.operations()[0];
  rope.forward(group, all);
  // The pair (x_0, x_4) of a head at position t is rotated by t; rows 3 and 35 are position 3 of two sequences.
  for (const int64_t row : {3, 35}) {
    EXPECT_NEAR(at(row, 0), std::cos(3.0) - std::sin(3.0), 0.02);
    EXPECT_NEAR(at(row, 32 + 8 + 4), std::cos(3.0) + std::sin(3.0), 0.02);
    EXPECT_EQ(at(row, 64), 1.0F);       // values stay
    EXPECT_EQ(at(row, 32 + 16), 1.0F);  // two heads of keys, not four
  }
  rope.backward(group, all);
  for (int64_t row = 0; row < 64; ++row)
    for (int64_t column = 0; column < 96; ++column) EXPECT_NEAR(at(row, column), 1.0F, 0.02);
}

}  // namespace
}  // namespace bridle
