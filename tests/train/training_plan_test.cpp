#include "train/training_plan.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "train/random_source.h"

namespace bridle {
namespace {

RunOptions options_for(int64_t slices) {
  RunOptions options;
  options.training.slices = slices;
  options.training.steps = 100;
  return resolved(options, random_data_set(options));
}

TEST(TrainingPlan, OfOneRankIsTheWholeStep) {
  const TrainingPlan plan = plan_training(options_for(1), {.ranks = 1, .flops = 1e9});
  EXPECT_NEAR(plan.pass_flop + plan.owner_flop, plan.flop, 1e-9 * plan.flop);
  EXPECT_EQ(plan.exchange_seconds, 0.0);
  EXPECT_EQ(plan.memory.exchange, 0.0);
  EXPECT_DOUBLE_EQ(plan.step_seconds(), (plan.pass_flop + plan.owner_flop) / 1e9);
  EXPECT_DOUBLE_EQ(plan.run_seconds(), 100.0 * plan.step_seconds());
}

// (W − 1)/W·8 bytes per weight, where the weights can be shared evenly: those of 3 blocks can, nearly.
TEST(TrainingPlan, CountsTheBytesOfTheBusiestLink) {
  for (const int64_t ranks : {2, 4}) {
    const TrainingPlan plan = plan_training(options_for(4), {.ranks = ranks, .flops = 1e9, .gbit = 1.0});
    const double all = 4.0 * static_cast<double>(plan.parameters);
    const auto size = static_cast<double>(ranks);
    EXPECT_GE(plan.gradient_bytes, (size - 1.0) / size * all);
    EXPECT_LE(plan.gradient_bytes, 1.2 * all);
    EXPECT_GE(plan.weight_bytes, (size - 1.0) / size * all);
    EXPECT_NEAR(plan.exchange_seconds, (plan.gradient_bytes + plan.weight_bytes) * 8e-9 / 0.95, 1e-12);
    EXPECT_NEAR(plan.pass_flop * size, plan_training(options_for(4), {.ranks = 1, .flops = 1e9}).pass_flop,
                1.0);
    EXPECT_GT(plan.memory.exchange, 0.0);
  }
}

TEST(TrainingPlan, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(plan_training(options_for(1), {.ranks = 2, .flops = 1e9, .gbit = 1.0}), InputError,
               "training.slices=2");
  EXPECT_ERROR(plan_training(options_for(2), {.ranks = 2, .flops = 1e9}), InputError,
               "--gbit must be positive");
  EXPECT_ERROR(plan_training(options_for(2), {.ranks = 1}), InputError, "--flops must be positive");
  EXPECT_ERROR(plan_training(options_for(2), {.ranks = 0, .flops = 1e9}), InputError,
               "--ranks must be at least 1");
}

}  // namespace
}  // namespace bridle
