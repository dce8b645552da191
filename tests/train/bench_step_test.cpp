#include "train/bench_step.h"

#include <algorithm>

#include "bridle/error.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::small_run;
using test::TemporaryData;

TEST(BenchStep, TimesEveryPartOnTheRecipesData) {
  const TemporaryData data;
  test::import_words(data);
  RunOptions options = small_run();
  options.constraint.prove_every = 2;
  const StepBench bench = bench_step(options, {.steps = 5, .warmup = 1});
  EXPECT_FALSE(bench.random_data);
  EXPECT_EQ(bench.examples, 8 * 32);
  EXPECT_EQ(bench.seconds.size(), 5U);
  EXPECT_GE(bench.peak_bfloat16.size(), 1U);
  EXPECT_EQ(bench.peak_float32.size(), bench.peak_bfloat16.size());
  for (const double part : {bench.times.forward, bench.times.backward, bench.times.optimizer,
                            bench.times.constraint, bench.times.proof})
    EXPECT_GT(part, 0.0);
  EXPECT_GE(bench.other, 0.0);
  // Every step is charged its part of the proofs, and no part is more than the step.
  EXPECT_LT(bench.times.proof, *std::min_element(bench.seconds.begin(), bench.seconds.end()));
  EXPECT_GT(bench.flop.total(), 0.0);
}

TEST(BenchStep, TakesRandomDataWhereThereIsNone) {
  const TemporaryData data;
  RunOptions options = small_run();
  const StepBench bench = bench_step(options, {.steps = 1, .warmup = 0});  // fewer than prove_every
  EXPECT_TRUE(bench.random_data);
  EXPECT_EQ(bench.options.model.transformer.vocab_size, 65);
  EXPECT_GT(bench.times.proof, 0.0);
  options.model = {.kind = ModelKind::mlp, .mlp = {.hidden_sizes = {8}}};
  options.data.standardize = true;
  const StepBench images = bench_step(options, {.steps = 1, .warmup = 0});
  EXPECT_TRUE(images.random_data);
  EXPECT_EQ(images.parameters, 3072 * 8 + 8 * 10);
}

TEST(BenchStep, WantsAtLeastOneStep) {
  EXPECT_ERROR(bench_step(small_run(), {.steps = 0}), InputError, "time at least one");
}

}  // namespace
}  // namespace bridle
