#include "train/flop_count.h"

#include <gtest/gtest.h>

#include "train/train_state.h"

namespace bridle {
namespace {

// One block of width 4 with two heads; every matrix is 4 × 4, so that a product with it is 128 FLOP, or 32 for a token.
RunOptions small_transformer() {
  RunOptions options;
  options.data = {.sequence_length = 3, .batch_size = 2};
  options.model.transformer = {.vocab_size = 4,
                               .real_vocab_size = 4,
                               .hidden_size = 4,
                               .num_hidden_layers = 1,
                               .num_attention_heads = 2,
                               .intermediate_size = 4,
                               .max_position_embeddings = 3};
  return options;
}

FlopCount count(RunOptions options) {
  const DataSet data{.name = "none",
                     .kind = options.model.kind == ModelKind::mlp ? DataKind::images : DataKind::tokens,
                     .outputs = options.model.kind == ModelKind::mlp ? 10 : 4};
  options = resolved(options, data);
  const auto model = make_model(options.model.options(), std::nullopt);
  const ConstraintSet constraints(model->params(), options.constraint);
  return flop_count(options, *model, constraints.params());
}

TEST(FlopCount, OfASmallTransformerIsWhatOneCountsByHand) {
  const FlopCount flop = count(small_transformer());
  // 6 tokens through 7 matrices; 2 sequences of 6 pairs, each 2 products over all 4 dimensions.
  const double forward = 6 * 7 * 32 + 2 * 6 * 2 * (2 * 4);
  EXPECT_EQ(flop.forward, forward);
  EXPECT_EQ(flop.backward, 2 * forward);
  EXPECT_EQ(flop.optimizer, 7 * 6 * 3 * 128);   // 6 steps of 3 products
  EXPECT_EQ(flop.constraint, 7 * 2 * 2 * 128);  // 2 steps of 2 products
  EXPECT_NEAR(flop.proof, 7 * (128 + 64.0 / 3) / 10, 1e-9);
  EXPECT_EQ(flop.bfloat16, 0.0);
  EXPECT_EQ(flop.total(), 3 * forward + flop.optimizer + flop.constraint + flop.proof);
}

TEST(FlopCount, KnowsWhatRunsInBfloat16) {
  RunOptions options = small_transformer();
  options.training.precision = Precision::bfloat16;
  options.optimizer.product_dtype = at::kBFloat16;
  FlopCount flop = count(options);
  EXPECT_EQ(flop.bfloat16, flop.forward + flop.backward + flop.optimizer);
  options.constraint.options.product_dtype = at::kBFloat16;
  flop = count(options);
  EXPECT_EQ(flop.bfloat16, flop.total() - flop.proof);
}

TEST(FlopCount, GrowsWithBatchesAndProofsOnly) {
  RunOptions options = small_transformer();
  const FlopCount one = count(options);
  options.training.accumulate = 3;
  options.constraint.prove_every = 1;
  const FlopCount three = count(options);
  EXPECT_EQ(three.forward, 3 * one.forward);
  EXPECT_EQ(three.optimizer, one.optimizer);
  EXPECT_NEAR(three.proof, 10 * one.proof, 1e-9);
}

TEST(FlopCount, CountsNoPaddingAndATiedHead) {
  RunOptions options = small_transformer();
  options.model.transformer.vocab_size = 8;
  EXPECT_EQ(count(options).forward, count(small_transformer()).forward);
  options.model.transformer.tie_embeddings = true;
  EXPECT_EQ(count(options).forward, count(small_transformer()).forward);
  EXPECT_EQ(count(options).optimizer, 6 * 6 * 3 * 128);
}

TEST(FlopCount, OfAnMlpLeavesOutTheGradientOfPixels) {
  RunOptions options;
  options.data.batch_size = 5;
  options.model = {.kind = ModelKind::mlp, .mlp = {.hidden_sizes = {8}}};
  options.optimizer.method = OptimizerMethod::adamw;
  options.constraint.options.method = "weight_decay";
  const FlopCount flop = count(options);
  const double first = 5 * 2 * 3072 * 8, second = 5 * 2 * 8 * 10;
  EXPECT_EQ(flop.forward, first + second);
  EXPECT_EQ(flop.backward, first + 2 * second);
  EXPECT_EQ(flop.optimizer + flop.constraint + flop.proof, 0.0);
}

TEST(FlopCount, KnowsEveryConstraint) {
  for (const std::string& method : constraint_names()) {
    RunOptions options = small_transformer();
    options.constraint.options.method = method;
    const FlopCount flop = count(options);
    const bool without_products = method == "none" || method == "weight_decay" || method == "hard_cap_svd";
    EXPECT_EQ(flop.constraint == 0.0, without_products) << method;
    EXPECT_GE(flop.proof, 0.0) << method;
  }
}

}  // namespace
}  // namespace bridle
