#include "certify/budget.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/certify.h"
#include "bridle/constraint.h"
#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

std::vector<Param> by_head(const Model& model) {
  std::vector<Param> params = model.params();
  for (Param& param : params)
    if (param.role == Role::key || param.role == Role::value) param.blocks = 4;
  return params;
}

// The model with weights far outside, brought inside the budget's caps.
double sealed_bound(const Model& model, const std::vector<Param>& params, const std::vector<double>& caps) {
  const at::NoGradGuard no_gradients;
  uint64_t seed = 90;
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].tensor.copy_(test::normal(params[i].tensor.sizes(), seed++));
    if (caps[i] > 0.0) seal_(params[i], caps[i]);
  }
  const auto norms = measured_norms();
  Walk walk(*norms);
  return model.bound(model.input_bound(*norms), walk).lipschitz.to_double();
}

TEST(ABudget, CanBeAboutThePapersFormula) {
  const auto model = make_model(test::small_transformer(), 1);
  const Budget budget = budget_for(*model, model->params(), {.lipschitz = 3.0, .papers = true});
  EXPECT_NEAR(budget.bound.to_double(), 3.0, 1e-9);
  sealed_bound(*model, model->params(), budget.caps);
  EXPECT_LE(paper_formula(*model, *measured_norms()).to_double(), 3.0);
}

TEST(ABudget, IsAllGivenToTheHeadAndNeverExceeded) {
  for (const double lipschitz : {0.5, 2.0, 20.0, 1000.0}) {
    const auto model = make_model(test::small_transformer(), 1);
    const std::vector<Param> params = by_head(*model);
    const Budget budget = budget_for(*model, params, {.lipschitz = lipschitz});
    EXPECT_LE(budget.bound.to_double(), lipschitz);
    EXPECT_GE(budget.bound.to_double(), (1.0 - 1e-9) * lipschitz);
    for (size_t i = 0; i < params.size(); ++i) {
      if (!is_matrix(params[i].role) || params[i].role == Role::head) continue;
      EXPECT_EQ(budget.caps[i], 1.0) << params[i].name;
    }
    EXPECT_LE(sealed_bound(*model, params, budget.caps), lipschitz);
  }
}

// By arithmetic: blocks of stretch 1 leave the whole of it to the head, however many they are.
TEST(ABudget, IsTheHeadsCapWhereBlocksHaveStretchOne) {
  for (const int64_t blocks : {1, 7}) {
    const auto model = make_model(TransformerOptions{.vocab_size = 32,
                                                     .hidden_size = 32,
                                                     .num_hidden_layers = blocks,
                                                     .mixing = MixingKind::quadrature,
                                                     .memory_channels = 32,
                                                     .content_heads = 2,
                                                     .content_size = 64,
                                                     .max_position_embeddings = 8,
                                                     .positions = PositionKind::none,
                                                     .activation = ActivationKind::abs,
                                                     .activation_divisor = 1.0,
                                                     .mlp_alpha = 0.5,
                                                     .learned_alpha = LearnedAlpha::scalar},
                                  1);
    const Budget budget = budget_for(*model, model->params(), {.lipschitz = 20.0});
    for (size_t i = 0; i < budget.caps.size(); ++i) {
      if (model->params()[i].role != Role::head) continue;
      EXPECT_NEAR(budget.caps[i], 20.0, 1e-9);
    }
  }
  const auto mlp = make_model(MlpOptions{.layer_sizes = {6, 6, 6}}, 1);
  EXPECT_EQ(budget_for(*mlp, mlp->params(), {.lipschitz = 4.0}).caps.front(), 1.0);
  EXPECT_NEAR(budget_for(*mlp, mlp->params(), {.lipschitz = 4.0}).caps.back(), 4.0, 1e-9);
}

// Nothing caps an MLP's biases, and its stretch does not depend on them; a transformer's does.
TEST(ABudget, MayHaveBiasesInAnMlpAlone) {
  const auto mlp =
      make_model(MlpOptions{.layer_sizes = {6, 8, 4}, .activation = ActivationKind::maxmin, .bias = true}, 1);
  const Budget budget = budget_for(*mlp, mlp->params(), {.lipschitz = 4.0});
  EXPECT_NEAR(budget.bound.to_double(), 4.0, 1e-8);
  EXPECT_LE(sealed_bound(*mlp, mlp->params(), budget.caps), 4.0);
  TransformerOptions biased = test::small_transformer();
  biased.bias = true;
  const auto transformer = make_model(biased, 1);
  EXPECT_ERROR(budget_for(*transformer, transformer->params(), {.lipschitz = 1e9}), InputError,
               "nothing caps");
}

TEST(ABudget, IsRefusedWhereItCannotBeKept) {
  const auto model = make_model(test::small_transformer(), 1);
  const auto budget = [](const Model& own, const BudgetOptions& options) {
    return budget_for(own, own.params(), options);
  };
  EXPECT_ERROR(budget(*model, {.lipschitz = 0.0}), InputError, "must be positive");
  EXPECT_ERROR(budget(*model, {.lipschitz = std::nan("")}), InputError, "must be positive");
  EXPECT_ERROR(budget(*model, {.lipschitz = 2.0, .embedding_cap = 0.0}), InputError,
               "constraint.embedding_cap");
  TransformerOptions tied = test::small_transformer();
  tied.tie_embeddings = true;  // the head cannot shrink
  EXPECT_ERROR(budget(*make_model(tied, 1), {.lipschitz = 0.01}), InputError, "cannot be met");
  TransformerOptions normed = test::small_transformer();
  normed.norm = NormLayer::rms_norm;
  EXPECT_ERROR(budget(*make_model(normed, 1), {.lipschitz = 1e30}), InputError,
               "nothing caps model.layers.0");
}

}  // namespace
}  // namespace bridle
