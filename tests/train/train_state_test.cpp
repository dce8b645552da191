#include "train/train_state.h"

#include "bridle/error.h"
#include "train/random_source.h"
#include "train/train_step.h"
#include "train_support.h"

namespace bridle {
namespace {

TrainState state_of(RunOptions options) {
  options = resolved(options, random_data_set(options));
  return make_train_state(options, make_recipe_model(options), random_source(options));
}

TEST(TrainState, StandsAtTheFirstStep) {
  const TrainState state = state_of(test::small_run());
  EXPECT_EQ(state.step, 0);
  EXPECT_EQ(state.loader->position(), 0);
  EXPECT_FALSE(state.budget);
  EXPECT_EQ(state.pass().times, nullptr);
  EXPECT_EQ(state.model->params().size(), state.constraints->params().size());
}

TEST(TrainState, MultipliesInTheRecipesPrecision) {
  RunOptions options = test::small_run();
  EXPECT_FALSE(state_of(options).options.optimizer.product_dtype.has_value());
  options.training.precision = Precision::bfloat16;
  const TrainState state = state_of(options);
  EXPECT_EQ(state.options.optimizer.product_dtype, at::kBFloat16);
  EXPECT_EQ(state.pass().dtype, at::kBFloat16);
}

TEST(TrainState, HasTheBudgetsCaps) {
  RunOptions options = test::small_run();
  options.constraint.lipschitz = 5.0;
  const TrainState state = state_of(options);
  ASSERT_TRUE(state.budget);
  EXPECT_EQ(state.constraints->caps(), state.budget->caps);
}

TEST(TrainState, ComesBackFromItsCheckpoint) {
  RunOptions options = test::small_run();
  options.constraint.lipschitz = 5.0;
  TrainState state = state_of(options), other = state_of(options);
  state.constraints->start_();
  for (int i = 0; i < 3; ++i) train_step_(state);
  restore_(other, checkpoint_of(state));
  EXPECT_EQ(other.step, 3);
  EXPECT_EQ(other.loader->position(), 3);
  EXPECT_EQ(other.constraints->caps(), state.constraints->caps());
  EXPECT_EQ(train_step_(other)->loss, train_step_(state)->loss);
  for (size_t i = 0; i < state.model->params().size(); ++i)
    EXPECT_TRUE(other.model->params()[i].tensor.equal(state.model->params()[i].tensor));
}

TEST(TrainState, HasNoCheckpointOfWhatIsNotFinite) {
  TrainState state = state_of(test::small_run());
  state.model->params().back().tensor.set_data(state.model->params().back().tensor.detach().div(0.0));
  EXPECT_ERROR(checkpoint_of(state), NumericError, "is not finite at step 0");
}

TEST(TrainState, CountsTokensOrImages) {
  RunOptions options = test::small_run();  // 8 sequences of 32 tokens
  options.training.accumulate = 3;
  EXPECT_EQ(examples_per_step(options, InputKind::tokens), 768);
  EXPECT_EQ(examples_per_step(options, InputKind::vectors), 24);
}

}  // namespace
}  // namespace bridle
