#include "train/constraint_set.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

std::unique_ptr<Model> outside() {  // every weight far outside its cap
  auto model = make_model(test::small_transformer(), 1);
  const at::NoGradGuard no_gradients;
  uint64_t seed = 1;
  for (const Param& param : model->params())
    param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(3.0));
  return model;
}

std::vector<StepInfo> steps_of(const Model& model) {
  return std::vector<StepInfo>(model.params().size(), {.learning_rate = 0.1, .update_bound = 1.0});
}

TEST(ConstraintsOfARun, CountAWeightsOwnHeads) {
  TransformerOptions options = test::small_transformer();
  options.num_key_value_heads = 2;
  const auto model = make_model(options, 1);
  ConstraintSettings settings;
  settings.heads = HeadBlocks::qkv;
  const ConstraintSet constraints(model->params(), settings);
  for (const Param& param : constraints.params())
    EXPECT_EQ(param.blocks, param.role == Role::query                              ? 4
                            : param.role == Role::key || param.role == Role::value ? 2
                                                                                   : 1)
        << param.name;
}

TEST(ConstraintsOfARun, BringEveryWeightInsideHeadByHeadWhereAsked) {
  for (const HeadBlocks heads : {HeadBlocks::whole, HeadBlocks::kv, HeadBlocks::qkv}) {
    const auto model = outside();
    ConstraintSettings settings;
    settings.sigma_max = 1.5;
    settings.heads = heads;
    ConstraintSet constraints(model->params(), settings);
    constraints.start_();
    for (const Param& param : constraints.params()) {
      const bool key_or_value = param.role == Role::key || param.role == Role::value;
      const bool apart = (heads == HeadBlocks::qkv && param.role == Role::query) ||
                         (heads != HeadBlocks::whole && key_or_value);
      EXPECT_EQ(param.blocks, apart ? 4 : 1) << param.name;
      EXPECT_TRUE(prove_norm(param, is_table(param.role) ? 1.0 : 1.5)) << param.name;
    }
  }
}

TEST(ConstraintsOfARun, HaveACapOfTheirOwnForTheHead) {
  const auto model = outside();
  ConstraintSettings settings;
  settings.sigma_max = 1.5;
  settings.head_sigma_max = 4.0;
  settings.embedding_cap = 0.5;
  ConstraintSet constraints(model->params(), settings);
  constraints.start_();
  const std::vector<double> caps = constraints.caps();
  for (size_t i = 0; i < caps.size(); ++i) {
    const Param& param = constraints.params()[i];
    EXPECT_EQ(caps[i], param.role == Role::head ? 4.0 : is_table(param.role) ? 0.5 : 1.5) << param.name;
    EXPECT_TRUE(prove_norm(param, caps[i])) << param.name;
    EXPECT_FALSE(prove_norm(param, 0.9 * caps[i])) << param.name;
  }
}

// Whatever constraint.heads says: what a content head costs is known of its own queries and keys alone.
TEST(ConstraintsOfARun, CapContentHeadsOneByOne) {
  const auto model = make_model(TransformerOptions{.vocab_size = 5,
                                                   .hidden_size = 32,
                                                   .num_hidden_layers = 1,
                                                   .mixing = MixingKind::quadrature,
                                                   .content_heads = 3,
                                                   .content_size = 64,
                                                   .max_position_embeddings = 4,
                                                   .positions = PositionKind::none},
                                1);
  const at::NoGradGuard no_gradients;
  for (const Param& param : model->params())
    if (is_matrix(param.role)) param.tensor.mul_(3.0);
  ConstraintSettings settings;
  settings.heads = HeadBlocks::whole;
  settings.sigma_max = 1.0;
  ConstraintSet constraints(model->params(), settings);
  constraints.start_();
  int64_t seen = 0;
  for (const Param& param : constraints.params()) {
    if (param.role != Role::content_query && param.role != Role::content_key) continue;
    const at::Tensor heads = param.tensor.view({3, 64, 32});
    for (int64_t head = 0; head < 3; ++head, ++seen)
      EXPECT_NEAR(test::spectral_norm(heads[head]), std::sqrt(2.0), 1e-3) << param.name;  // RMS norm 1
  }
  EXPECT_EQ(seen, 6);
}

// A longer update than there is: the soft cap shrinks more, by what it would for such an update.
TEST(ConstraintsOfARun, LeaveRoomForLongerUpdatesWhereAsked) {
  const auto shrunk = [](double room, double update) {
    const auto model = make_model(test::small_transformer(), 1);
    ConstraintSettings settings;
    settings.sigma_max = 1.0;
    settings.coupling_room = room;
    ConstraintSet constraints(model->params(), settings);
    constraints.start_();
    constraints.enforce_(
        std::vector<StepInfo>(model->params().size(), {.learning_rate = 0.1, .update_bound = update}));
    return model->params()[1].tensor.detach().clone();
  };
  EXPECT_TRUE(shrunk(1.05, 1.0).equal(shrunk(1.0, 1.05)));
  EXPECT_FALSE(shrunk(1.05, 1.0).equal(shrunk(1.0, 1.0)));
}

TEST(ConstraintsOfARun, ProveOnlyWhatAMethodPromises) {
  for (const auto& [method, repaired] :
       {std::pair{"soft_cap", true}, std::pair{"hammer", false}, std::pair{"none", false}}) {
    const auto model = outside();
    ConstraintSettings settings;
    settings.options.method = method;
    settings.embedding_cap = 0.0;
    ConstraintSet constraints(model->params(), settings);
    constraints.enforce_(steps_of(*model));
    constraints.prove_and_repair_();
    EXPECT_EQ(constraints.repairs() > 0, repaired) << method;
  }
}

TEST(ConstraintsOfARun, TakeOtherCapsAndThenProveAllOfThem) {
  const auto model = outside();
  ConstraintSettings settings;
  settings.options.method = "hammer";  // promises nothing
  settings.embedding_cap = 0.0;
  ConstraintSet constraints(model->params(), settings);
  EXPECT_TRUE(constraints.all_proved());  // of nothing
  std::vector<double> caps = constraints.caps();
  for (double& cap : caps) cap *= 0.5;
  constraints.set_caps(caps);
  EXPECT_EQ(constraints.caps(), caps);
  EXPECT_FALSE(constraints.all_proved());
  constraints.prove_and_repair_();
  EXPECT_TRUE(constraints.all_proved());
  for (size_t i = 0; i < caps.size(); ++i)
    if (caps[i] > 0.0) {
      EXPECT_TRUE(prove_norm(constraints.params()[i], caps[i])) << constraints.params()[i].name;
    }
}

TEST(ConstraintsOfARun, ComeBackWithTheirState) {
  const auto model = outside();
  ConstraintSettings settings;
  settings.options.method = "hammer";
  ConstraintSet constraints(model->params(), settings);
  constraints.enforce_(steps_of(*model));
  const auto state = constraints.state();
  EXPECT_FALSE(state.empty());
  ConstraintSet copy(model->params(), settings);
  copy.set_state(state, 7);
  EXPECT_EQ(copy.repairs(), 7);
  for (const auto& [name, tensor] : copy.state()) EXPECT_TRUE(tensor.equal(state.at(name))) << name;
}

// Coefficients and α that nothing has looked at since they were read: of a checkpoint, for example.
TEST(ConstraintSet, ProvesThatMixturesAreInsideWhatTheCapsTakeForGranted) {
  const Param coefficients{
      .name = "c", .tensor = at::full({4}, 0.49, at::kFloat), .role = Role::mixing_weight};
  const Param alpha{.name = "alpha", .tensor = at::full({1}, 1.0, at::kFloat), .role = Role::residual_weight};
  ConstraintSet set({coefficients, alpha}, {});
  set.set_caps({0.0, 0.0});
  EXPECT_TRUE(set.all_proved());
  coefficients.tensor.fill_(0.6);
  EXPECT_FALSE(set.all_proved());
  set.start_();
  EXPECT_TRUE(set.all_proved());
  EXPECT_NEAR(coefficients.tensor.norm().item<double>(), 1.0, 1e-5);
  alpha.tensor.fill_(1.5);
  EXPECT_FALSE(set.all_proved());
  set.start_();
  EXPECT_EQ(alpha.tensor.item<float>(), 1.0F);
  EXPECT_TRUE(set.all_proved());
}

TEST(ConstraintSet, LengthensMixturesToWhatTheBoundAllows) {
  const Param coefficients{
      .name = "c", .tensor = at::tensor({0.3F, -0.4F, 0.0F}), .role = Role::mixing_weight};
  const Param shut{.name = "shut", .tensor = at::zeros({2}, at::kFloat), .role = Role::mixing_weight};
  ConstraintSet set({coefficients, shut}, {});
  set.set_caps({0.0, 0.0});
  set.start_();
  EXPECT_TRUE(set.all_proved());
  EXPECT_TRUE(coefficients.tensor.allclose(at::tensor({0.6F, -0.8F, 0.0F}), 1e-5, 1e-5));
  EXPECT_TRUE(shut.tensor.equal(at::zeros({2}, at::kFloat)));
}

TEST(ConstraintSet, KeepsEveryEntryOfAVectorAlphaInside) {
  const Param alpha{.name = "alpha", .tensor = at::full({3}, 0.5, at::kFloat), .role = Role::residual_weight};
  ConstraintSet set({alpha}, {});
  set.set_caps({0.0});
  EXPECT_TRUE(set.all_proved());
  alpha.tensor[1].fill_(-0.1);
  EXPECT_FALSE(set.all_proved());
  set.start_();
  EXPECT_TRUE(set.all_proved());
  EXPECT_EQ(alpha.tensor[1].item<float>(), 0.0F);
  EXPECT_EQ(alpha.tensor[2].item<float>(), 0.5F);
}

}  // namespace
}  // namespace bridle
