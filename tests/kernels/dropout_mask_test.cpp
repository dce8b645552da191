#include "kernels/dropout_mask.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/dropout_hash.h"
#include "kernels/step_kernels.h"

namespace bridle {
namespace {

TEST(DropoutMask, DropsTheShareThatItIsToldTo) {
  for (const double share : {0.1, 0.5, 0.9}) {
    const at::Tensor kept = dropout_mask(4, 100, 256, 17, share);
    const double mean = kept.mean().item<double>(), deviation = std::sqrt(share * (1.0 - share) / 102400.0);
    EXPECT_NEAR(mean, 1.0 - share, 5.0 * deviation);
    // Neither rows nor columns stand out.
    for (const int64_t dim : {0, 1}) {
      const at::Tensor means = kept.view({400, 256}).mean(dim);
      const double count = dim == 0 ? 400.0 : 256.0;
      EXPECT_LT(means.sub(1.0 - share).abs().max().item<double>(),
                5.5 * std::sqrt(share * (1.0 - share) / count));
    }
  }
}

TEST(DropoutMask, BelongsToItsKeyAndItsRow) {
  const at::Tensor first = dropout_mask(2, 40, 64, 1, 0.5);
  EXPECT_TRUE(first.equal(dropout_mask(2, 40, 64, 1, 0.5)));
  EXPECT_FALSE(first.equal(dropout_mask(2, 40, 64, 2, 0.5)));
  EXPECT_FALSE(first[0].equal(first[1]));
  EXPECT_TRUE(first[0].equal(dropout_mask(1, 40, 64, 1, 0.5)[0]));
  EXPECT_TRUE(first[0].narrow(1, 0, 7).equal(dropout_mask(1, 40, 7, 1, 0.5)[0]));
}

TEST(DropoutMask, IsWhatTheKernelsDropOnEveryInstructionSet) {
  const int64_t rows = 96, columns = 64;
  const at::Tensor in = at::ones({rows, columns}, at::kBFloat16);
  const at::Tensor expected = dropout_mask(3, 32, columns, 99, 0.3).view({rows, columns}).mul(2.0);
  for (const auto set : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512,
                         InstructionSet::avx512_bf16, InstructionSet::amx}) {
    if (set > instruction_set()) continue;
    const at::Tensor out = at::zeros_like(in);
    step_kernels(set).drop({.in = in.data_ptr(),
                            .out = out.data_ptr(),
                            .stride = columns,
                            .rows = rows,
                            .columns = columns,
                            .drop = {.key = 99, .threshold = dropout_threshold(0.3), .scale = 2.0F}});
    EXPECT_TRUE(out.to(at::kFloat).equal(expected)) << instruction_set_name(set);
  }
}

}  // namespace
}  // namespace bridle
