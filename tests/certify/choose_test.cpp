#include "certify/choose.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

TEST(ABudgetsChoice, TouchesOnlyWhatTheRecipeAllows) {
  TransformerOptions model = test::small_transformer();
  model.final_scale = 8.0;
  EXPECT_EQ(chosen_for_budget(model, "").final_scale, 8.0);
  const TransformerOptions some = chosen_for_budget(model, "position_bias, mlp_alpha");
  EXPECT_TRUE(some.position_bias);
  EXPECT_FALSE(some.logit_bias);
  EXPECT_TRUE(chosen_for_budget(model, "logit_bias").logit_bias);
  EXPECT_EQ(some.mlp_alpha, 0.5);
  EXPECT_EQ(some.attention_alpha, model.attention_alpha);
  EXPECT_EQ(some.attention_output_scale, model.attention_output_scale);
  EXPECT_EQ(some.final_scale, 8.0);
  const TransformerOptions all = chosen_for_budget(model, "all");
  EXPECT_EQ(all.final_scale, 1.0);
  EXPECT_EQ(all.attention_output_scale, 1.0);
  EXPECT_EQ(all.attention_alpha, 0.5);
  EXPECT_EQ(all.num_hidden_layers, 2);
  EXPECT_ERROR(chosen_for_budget(model, "mlp_alfa"), InputError, "mlp_alpha");
}

}  // namespace
}  // namespace bridle
