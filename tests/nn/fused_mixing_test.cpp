// Whole passes are held against their twins in transformer_fused_test.cpp; here the tables that the kernels read.
#include "nn/fused_mixing.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "nn/fused_group.h"
#include "support.h"

namespace bridle {
namespace {

// One head whose logits are equal: the mean over the window. Of channels with a decay of 1 per token the maximum is the largest of
// v_j − (i − j).
TEST(FusedMixing, TakesMeansOverTheWindowAndMaximaThatDecay) {
  const Param bias{.name = "bias", .tensor = at::zeros({1, 32}, at::kFloat)};
  const Param coefficients{.name = "c", .tensor = at::full({3}, 0.5, at::kFloat)};
  const Param decay{.name = "rho", .tensor = at::zeros({32}, at::kFloat)};
  FusedProgram program({bias, coefficients, decay}, step_kernels(ValueType::float32));
  FusedMixingOptions options{.position_bias = bias,
                             .coefficients = coefficients,
                             .log_decay = decay,
                             .size = 32,
                             .sees = {.window = 2}};
  options.in.values = program.matrix(32);
  options.memory = program.matrix(32);
  options.out = program.matrix(96);
  program.add(std::make_unique<FusedMixing>(program, options));
  program.finish();
  program.set_rows(32);
  program.pack(Team(1));
  const FusedShape shape{.batch = 1, .length = 32, .rows = 32, .group = 1, .shared = true, .slots = 1};
  FusedGroup group(program, shape, Team(1), false);
  const auto at = [&](FusedBuffer buffer, int64_t row, int64_t column) -> float& {
    return *reinterpret_cast<float*>(group.matrix(buffer).at(row, column));
  };
  for (int64_t row = 0; row < 32; ++row)
    for (int64_t i = 0; i < 32; ++i) {
      at(options.in.values, row, i) = static_cast<float>(row * row + i);
      at(options.memory, row, i) = row == 3 ? 10.0F : 0.0F;
    }
  const Pass pass;
  group.run({.pass = &pass}, 1, nullptr);
  EXPECT_EQ(at(options.out, 5, 2), 0.5F * 27.0F);
  EXPECT_NEAR(at(options.out, 5, 32 + 2), 0.5F * (27.0F + 18.0F) / 2.0F, 1e-5);
  EXPECT_NEAR(at(options.out, 0, 32 + 2), 0.5F * 2.0F, 1e-6);
  EXPECT_NEAR(at(options.out, 3, 64), 5.0F, 1e-5);
  EXPECT_NEAR(at(options.out, 7, 64 + 31), 0.5F * 6.0F, 1e-5);
  EXPECT_NEAR(at(options.out, 20, 64), 0.0F, 1e-5);
}

}  // namespace
}  // namespace bridle
