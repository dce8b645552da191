#include "optim/plan.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

Param weight(Role role) {
  return {.name = "w", .tensor = role >= Role::bias ? at::zeros({4}) : at::zeros({4, 2}), .role = role};
}

void expect_plan(const Plan& plan, UpdateRule rule, double update_rate, double decay_rate, double decay) {
  EXPECT_EQ(plan.rule, rule);
  EXPECT_DOUBLE_EQ(plan.update_rate, update_rate);
  EXPECT_DOUBLE_EQ(plan.decay_rate, decay_rate);
  EXPECT_DOUBLE_EQ(plan.decay, decay);
}

TEST(Plan, MuonTakesMatricesRowsAreNormalizedAndTheRestIsAdams) {
  const OptimizerOptions options{.lr = 2.0, .weight_decay = 0.5, .adam_lr = 0.25};
  for (const Role role : {Role::linear, Role::query, Role::key, Role::value, Role::attention_output,
                          Role::mlp_up, Role::mlp_down, Role::head}) {
    const Plan plan = plan_steps(weight(role), 0.125, options);
    expect_plan(plan, UpdateRule::muon, 0.25, 0.25, 0.5);
    EXPECT_EQ(plan.update_bound, update_bound(Coefficients::six_step));
  }
  const Plan embedding = plan_steps(weight(Role::embedding), 0.125, options);
  expect_plan(embedding, UpdateRule::row_normalize, 0.25, 0.25, 0.5);
  EXPECT_EQ(embedding.update_bound, 1.0);
  for (const Role role : {Role::position_embedding, Role::position_bias, Role::bias, Role::gain}) {
    const Plan plan = plan_steps(weight(role), 1.0, options);
    expect_plan(plan, UpdateRule::adam, 0.25, 0.25, 0.0);
    EXPECT_TRUE(std::isinf(plan.update_bound));
  }
}

TEST(Plan, MixturesStepSlowlyAndMemoriesFast) {
  const OptimizerOptions options{.lr = 2.0, .adam_lr = 0.25};
  for (const Role role : {Role::residual_weight, Role::mixing_weight})
    expect_plan(plan_steps(weight(role), 1.0, options), UpdateRule::adam, 0.0625, 0.0625, 0.0);
  expect_plan(plan_steps(weight(Role::memory), 1.0, options), UpdateRule::adam, 2.5, 2.5, 0.0);
}

TEST(Plan, TheUpdateBoundIsThatOfTheChosenCoefficients) {
  const Plan plan = plan_steps(weight(Role::value), 1.0, {.ns_coefficients = Coefficients::classic});
  EXPECT_EQ(plan.update_bound, update_bound(Coefficients::classic));
}

TEST(Plan, CoarseProductsStayBelowTheUpdateBound) {
  const double bound = plan_steps(weight(Role::value), 1.0, {.product_dtype = at::kBFloat16}).update_bound;
  double most = 0.0;
  for (int kind = 0; kind < test::kSpectra; ++kind) {
    const Tensor direction = test::matrix_with_spectrum(test::spectrum(kind, 48, 3), 48, 96, 5);
    most = std::max(most, test::spectral_norm(orthogonalize(direction.to(at::kBFloat16)).to(at::kDouble)));
  }
  EXPECT_LE(most, bound);
  EXPECT_GT(most, update_bound(Coefficients::six_step));  // the exact one would be too small
}

TEST(Plan, UnderAdamwOnlyTheDecayCarriesTheShare) {
  const OptimizerOptions options{
      .method = OptimizerMethod::adamw, .lr = 2.0, .weight_decay = 0.5, .adam_lr = 0.25};
  for (const Role role : {Role::value, Role::head, Role::embedding}) {
    const Plan plan = plan_steps(weight(role), 0.125, options);
    expect_plan(plan, UpdateRule::adam, 2.0, 0.25, 0.5);
    EXPECT_TRUE(std::isinf(plan.update_bound));
  }
  expect_plan(plan_steps(weight(Role::gain), 1.0, options), UpdateRule::adam, 0.25, 0.25, 0.0);
}

TEST(Plan, AdamwWithoutMassTrainsAllAtOneRateAndDecaysFromTwoDimensionsOn) {
  const OptimizerOptions options{
      .method = OptimizerMethod::adamw, .lr = 2.0, .weight_decay = 0.5, .mass = {.use = false}};
  for (const Role role : {Role::value, Role::embedding, Role::position_embedding, Role::position_bias}) {
    expect_plan(plan_steps(weight(role), 1.0, options), UpdateRule::adam, 2.0, 2.0, 0.5);
  }
  for (const Role role : {Role::bias, Role::gain}) {
    expect_plan(plan_steps(weight(role), 1.0, options), UpdateRule::adam, 2.0, 2.0, 0.0);
  }
}

TEST(Plan, EmbeddingAndHeadMayHaveRatesOfTheirOwn) {
  const OptimizerOptions options{.embedding = EmbeddingRule::adam, .embedding_lr = 0.5, .head_lr = 0.25};
  expect_plan(plan_steps(weight(Role::embedding), 0.125, options), UpdateRule::adam, 0.5, 0.5, 0.0);
  expect_plan(plan_steps(weight(Role::head), 0.125, options), UpdateRule::muon, 0.25, 0.25, 0.0);
  expect_plan(plan_steps(weight(Role::value), 0.5, options), UpdateRule::muon, 0.05, 0.05, 0.0);
}

TEST(Plan, TheEmbeddingsRuleMayBeNamed) {
  const Param table = weight(Role::embedding);
  const Plan adam = plan_steps(table, 0.5, {.lr = 1.0, .embedding = EmbeddingRule::adam});
  expect_plan(adam, UpdateRule::adam, 0.5, 0.5, 0.0);
  const Plan rows = plan_steps(
      table, 0.5, {.method = OptimizerMethod::adamw, .lr = 1.0, .embedding = EmbeddingRule::row_normalize});
  expect_plan(rows, UpdateRule::row_normalize, 0.5, 0.5, 0.0);
}

TEST(Plan, RefusesTensorsThatTheirRoleCannotHave) {
  EXPECT_THROW(plan_steps({.name = "w", .tensor = at::zeros({3})}, 1.0, {}), InputError);
  EXPECT_THROW(plan_steps({.name = "w", .tensor = at::zeros({3, 2}), .blocks = 2}, 1.0, {}), InputError);
  EXPECT_THROW(plan_steps({.name = "w", .tensor = at::zeros({3}), .role = Role::embedding}, 1.0, {}),
               InputError);
  EXPECT_THROW(plan_steps({.name = "w", .role = Role::bias}, 1.0, {}), InputError);
  EXPECT_ERROR(plan_steps({.name = "w", .tensor = at::zeros({3}, at::kLong), .role = Role::bias}, 1.0, {}),
               InputError, "w is not a weight");
}

TEST(CheckOptions, NamesTheOptionThatIsOutOfRange) {
  EXPECT_ERROR(check_options({.lr = -1.0}), InputError, "lr must be 0 or more and finite, got -1");
  EXPECT_ERROR(check_options({.lr = NAN}), InputError, "lr must be 0 or more and finite, got nan");
  EXPECT_ERROR(check_options({.weight_decay = INFINITY}), InputError, "weight_decay");
  EXPECT_ERROR(check_options({.momentum = 1.0}), InputError,
               "momentum must be at least 0 and below 1, got 1");
  EXPECT_ERROR(check_options({.beta2 = 1.0}), InputError, "beta2");
  EXPECT_ERROR(check_options({.eps = 0.0}), InputError, "eps");
  EXPECT_ERROR(check_options({.inflation_limit = 0.0}), InputError, "inflation_limit");
  EXPECT_ERROR(check_options({.gradient_clip = -0.5}), InputError, "gradient_clip");
  EXPECT_ERROR(check_options({.momentum_warmup_steps = 3}), InputError,
               "must both be positive, or both 0; got 0");
  EXPECT_ERROR(check_options({.momentum_start = 0.5}), InputError, "got 0.5 and 0");
  EXPECT_ERROR(check_options({.momentum_start = 0.5, .momentum_warmup_steps = -1}), InputError, "momentum");
  EXPECT_ERROR(check_options({.product_dtype = at::kHalf}), InputError, "Half");
}

TEST(CheckOptions, SuggestsTheNearestName) {}

}  // namespace
}  // namespace bridle
