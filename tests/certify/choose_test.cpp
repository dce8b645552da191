#include "certify/choose.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

TransformerOptions chosen(const ModelRecipe& recipe, const std::string& keys) {
  return chosen_for_budget(recipe, keys).transformer;
}

TEST(ABudgetsChoice, TouchesOnlyWhatTheRecipeAllows) {
  ModelRecipe recipe{.transformer = test::small_transformer()};
  recipe.transformer.final_scale = recipe.mlp.final_scale = 8.0;
  EXPECT_EQ(chosen(recipe, "").final_scale, 8.0);
  const TransformerOptions some = chosen(recipe, "position_bias, mlp_alpha");
  EXPECT_TRUE(some.position_bias);
  EXPECT_FALSE(some.logit_bias);
  EXPECT_TRUE(chosen(recipe, "logit_bias").logit_bias);
  EXPECT_EQ(some.mlp_alpha, 0.5);
  EXPECT_EQ(some.attention_alpha, recipe.transformer.attention_alpha);
  EXPECT_EQ(some.attention_output_scale, recipe.transformer.attention_output_scale);
  EXPECT_EQ(some.final_scale, 8.0);
  const TransformerOptions all = chosen(recipe, "all");
  EXPECT_EQ(all.final_scale, 1.0);
  EXPECT_EQ(all.attention_output_scale, 1.0);
  EXPECT_EQ(all.attention_alpha, 0.5);
  EXPECT_EQ(all.num_hidden_layers, 2);
  EXPECT_EQ(chosen_for_budget(recipe, "").mlp.final_scale, 8.0);
  EXPECT_EQ(chosen_for_budget(recipe, "final_scale").mlp.final_scale, 1.0);
  EXPECT_ERROR(chosen_for_budget(recipe, "mlp_alfa"), InputError, "mlp_alpha");
}

}  // namespace
}  // namespace bridle
