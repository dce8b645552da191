#include "certify/choose.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "certify/budget.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

TEST(ABudgetsChoice, TouchesOnlyWhatTheRecipeAllows) {
  const ModelOptions model = test::small_transformer();
  EXPECT_EQ(chosen_for(model, {}).final_scale, model.final_scale);
  const ModelOptions some = chosen_for(model, {.keys = "position_bias, mlp_alpha", .lipschitz = 20.0});
  EXPECT_TRUE(some.position_bias);
  EXPECT_EQ(some.mlp_alpha, 0.5);
  EXPECT_EQ(some.attention_alpha, model.attention_alpha);
  EXPECT_EQ(some.final_scale, model.final_scale);
  EXPECT_ERROR(chosen_for(model, {.keys = "mlp_alfa", .lipschitz = 20.0}), InputError, "mlp_alpha");
  EXPECT_ERROR(chosen_for(model, {.keys = "all"}), InputError, "--lipschitz");
}

TEST(ABudgetsChoice, OfTheFinalScalePutsTheFirstCapsAtOne) {
  for (const double lipschitz : {0.3, 2.0, 20.0, 5000.0}) {
    const ModelOptions model =
        resolved(chosen_for(test::small_transformer(),
                            {.keys = "all", .lipschitz = lipschitz, .by_head = {Role::key, Role::value}}));
    const auto made = make_model(model, 1);
    std::vector<Param> params = made->params();
    for (Param& param : params)
      if (param.role == Role::key || param.role == Role::value) param.blocks = model.num_attention_heads;
    const Budget budget(*made, params, {.lipschitz = lipschitz});
    for (size_t i = 0; i < params.size(); ++i)
      if (is_matrix(params[i].role)) {
        EXPECT_NEAR(budget.caps()[i], 1.0, 1e-6) << params[i].name;
      }
    // Chosen again, as when a run is resumed from its resolved settings, it is the same.
    const ModelOptions again =
        chosen_for(model, {.keys = "all", .lipschitz = lipschitz, .by_head = {Role::key, Role::value}});
    EXPECT_EQ(again.final_scale, model.final_scale);
    EXPECT_EQ(again.num_hidden_layers, model.num_hidden_layers);
  }
}

}  // namespace
}  // namespace bridle
