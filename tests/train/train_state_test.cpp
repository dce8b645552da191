#include "train/train_state.h"

#include "train/random_source.h"
#include "train_support.h"

namespace bridle {
namespace {

TrainState state_of(RunOptions options) {
  options = resolved(options, random_data_set(options));
  return make_train_state(options, random_source(options));
}

TEST(TrainState, StandsAtTheFirstStep) {
  const TrainState state = state_of(test::small_run());
  EXPECT_EQ(state.step, 0);
  EXPECT_EQ(state.loader->position(), 0);
  EXPECT_EQ(state.budget, nullptr);
  EXPECT_EQ(state.pass().times, nullptr);
  EXPECT_EQ(state.model->params().size(), state.constraints->params().size());
}

TEST(TrainState, MultipliesInTheRecipesPrecision) {
  RunOptions options = test::small_run();
  EXPECT_FALSE(state_of(options).options.optimizer.product_dtype.has_value());
  options.training.precision = "bfloat16";
  const TrainState state = state_of(options);
  EXPECT_EQ(state.options.optimizer.product_dtype, at::kBFloat16);
  EXPECT_EQ(state.pass().dtype, at::kBFloat16);
}

TEST(TrainState, HasTheBudgetsCaps) {
  RunOptions options = test::small_run();
  options.constraint.lipschitz = 5.0;
  const TrainState state = state_of(options);
  ASSERT_NE(state.budget, nullptr);
  EXPECT_EQ(state.constraints->caps(), state.budget->caps());
}

TEST(TrainState, CountsTokensOrImages) {
  RunOptions options = test::small_run();  // 8 sequences of 32 tokens
  options.training.accumulate = 3;
  EXPECT_EQ(examples_per_step(options), 768);
  options.model.kind = ModelKind::mlp;
  EXPECT_EQ(examples_per_step(options), 24);
}

}  // namespace
}  // namespace bridle
