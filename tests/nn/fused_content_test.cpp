// Whole passes are held against their twins in transformer_fused_test.cpp; here what the kernels are given.
#include "nn/fused_content.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/fused_group.h"
#include "support.h"

namespace bridle {
namespace {

// Equal keys: the second head, whose coefficient is 0.5 and whose range is 1, gives the mean over the window, divided by 1 + √2.
TEST(FusedContent, TakesMeansOverTheWindowAndDividesThemByTheirPrice) {
  const Param bias{.name = "bias", .tensor = at::zeros({2, 32}, at::kFloat)};
  const Param range{.name = "rho", .tensor = at::zeros({2}, at::kFloat)};
  const Param coefficients{.name = "c", .tensor = at::full({4}, 0.5, at::kFloat)};
  FusedProgram program({bias, range, coefficients}, step_kernels(ValueType::float32));
  FusedContentOptions options{.position_bias = bias,
                              .log_range = range,
                              .coefficients = coefficients,
                              .first = 2,
                              .size = 64,
                              .content_size = 32,
                              .sees = {.window = 2}};
  options.in.values = program.matrix(64);
  options.qk = program.matrix(4 * 32);
  options.out = program.matrix(4 * 64);
  options.log_sums = program.floats(2);
  program.add(std::make_unique<FusedContent>(program, options));
  program.finish();
  program.set_rows(32);
  program.pack(Team(1));
  const FusedShape shape{.batch = 1, .length = 32, .rows = 32, .group = 1, .shared = true, .slots = 1};
  FusedGroup group(program, shape, Team(1), false);
  const auto at = [&](FusedBuffer buffer, int64_t row, int64_t column) -> float& {
    return *reinterpret_cast<float*>(group.matrix(buffer).at(row, column));
  };
  for (int64_t row = 0; row < 32; ++row) {
    for (int64_t i = 0; i < 64; ++i) at(options.in.values, row, i) = static_cast<float>(row * row + i);
    for (int64_t i = 0; i < 4 * 32; ++i)
      at(options.qk, row, i) = i == 64 + 3 ? static_cast<float>(row) : 0.0F;
    at(options.qk, row, 3) = 32.0F;  // the first head's queries find its keys' number
  }
  const Pass pass;
  group.run({.pass = &pass}, 1, nullptr);
  const double price = 1.0 + std::sqrt(2.0);
  EXPECT_NEAR(at(options.out, 5, 3 * 64 + 2), 0.5 / price * (27.0 + 18.0) / 2.0, 1e-5);
  EXPECT_NEAR(at(options.out, 0, 3 * 64 + 40), 0.5 / price * 40.0, 1e-5);
  const double own = 1.0 / (1.0 + std::exp(-1.0));  // of token 5, whose logit is 5·32/32, beside 4
  EXPECT_NEAR(at(options.out, 5, 2 * 64 + 2), 0.5 / price * (own * 27.0 + (1.0 - own) * 18.0), 1e-4);
}

}  // namespace
}  // namespace bridle
