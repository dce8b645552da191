#include "train/memory_estimate.h"

#include "bridle/error.h"
#include "train/random_source.h"
#include "train/train_state.h"
#include "train_support.h"

namespace bridle {
namespace {

constexpr double kMega = 1e6;

RunOptions resolved_run(RunOptions options) { return resolved(options, random_data_set(options)); }

TEST(MemoryEstimate, CountsWeightsGradientsAndState) {
  RunOptions options;  // 3 blocks of width 256, 65 tokens
  options.optimizer.method = OptimizerMethod::adamw;
  options.constraint.options.method = "none";
  const MemoryEstimate once = memory_estimate(resolved_run(options), 2);
  EXPECT_EQ(once.weights, 4.0 * (3 * 12 * 256 * 256 + 2 * 65 * 256));
  EXPECT_EQ(once.gradients, once.weights);
  EXPECT_EQ(once.optimizer, 2.0 * once.weights);
  EXPECT_GT(once.packed, once.weights);  // in the layout of products, and sums of gradients
  options.model.transformer.positions = PositionKind::learned;
  options.model.transformer.position_bias = true;
  options.model.transformer.max_position_embeddings = 1000;
  EXPECT_EQ(memory_estimate(resolved_run(options), 2).weights, once.weights + 4.0 * 1000 * (256 + 3 * 4));
  options.model = {};
  options.training.accumulate = 2;
  EXPECT_EQ(memory_estimate(resolved_run(options), 2).gradients, 2.0 * once.weights);
}

// The fused pass takes a batch group by group, so that its size does not matter.
TEST(MemoryEstimate, KnowsThatBatchesAreTakenInGroups) {
  RunOptions options;
  const MemoryEstimate wide = memory_estimate(resolved_run(options), 2);
  options.training.precision = Precision::bfloat16;
  const MemoryEstimate narrow = memory_estimate(resolved_run(options), 2);
  EXPECT_LT(narrow.activations, wide.activations);
  EXPECT_LT(narrow.packed, wide.packed);
  options.data.batch_size *= 8;
  EXPECT_EQ(memory_estimate(resolved_run(options), 2).activations, narrow.activations);
  options.training.precision = Precision::float32;
  EXPECT_EQ(memory_estimate(resolved_run(options), 2).activations, wide.activations);
}

TEST(MemoryEstimate, CountsABatchOfImages) {
  RunOptions options;
  options.model.kind = ModelKind::mlp;
  options.data.batch_size = 512;
  const MemoryEstimate estimate = memory_estimate(resolved_run(options), 2);
  EXPECT_EQ(estimate.batches, 4.0 * 512 * 3072 * 4);
  EXPECT_EQ(estimate.weights, 4.0 * (3072 * 256 + 256 * 256 + 256 * 10));
  EXPECT_LT(estimate.activations, 20 * kMega);
}

TEST(MemoryEstimate, RefusesWhatCannotFitWithTheFigures) {
  const int64_t machine = int64_t{23} << 30;
  RunOptions options;
  check_memory(resolved_run(options), 2, machine);
  options.data.batch_size = 1'000'000'000;
  EXPECT_ERROR(check_memory(resolved_run(options), 2, machine), InputError,
               "and 23 GiB are available; lower data.batch_size or data.sequence_length");
  options.data.batch_size = 64;
  options.model.transformer.hidden_size = 100'000;
  EXPECT_ERROR(check_memory(resolved_run(options), 2, machine), InputError, "[train] this run needs about");
  EXPECT_ERROR(check_memory(resolved_run(options), 2, machine), InputError, "lower model.hidden_size");
  RunOptions images;
  images.model.kind = ModelKind::mlp;
  images.model.mlp.hidden_sizes = {1'000'000, 1'000'000};
  EXPECT_ERROR(check_memory(resolved_run(images), 2, machine), InputError, "lower model.hidden_sizes");
}

// Before the model is made, whose memory alone would end the process.
TEST(MemoryEstimate, IsLookedAtBeforeAnythingIsAllocated) {
  RunOptions options;
  options.model.transformer.hidden_size = 4'000'000;
  const RunOptions large = resolved_run(options);
  EXPECT_ERROR(make_recipe_model(large), InputError, "this run needs about");
  RunOptions deep;
  deep.model.transformer.num_hidden_layers = 1 << 24;
  EXPECT_ERROR(make_recipe_model(resolved_run(deep)), InputError,
               "num_hidden_layers must be at most 16384 here, got 16777216");
}

}  // namespace
}  // namespace bridle
