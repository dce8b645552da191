#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "bridle/optim.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::largest_difference;

// One weight of every kind, as a small transformer has them.
std::vector<Param> small_model(at::ScalarType dtype = at::kFloat) {
  return {{.name = "embedding", .tensor = test::normal({9, 8}, 1, dtype), .role = Role::embedding},
          {.name = "key", .tensor = test::normal({8, 8}, 2, dtype), .role = Role::key, .blocks = 2},
          {.name = "up", .tensor = test::normal({24, 8}, 3, dtype), .role = Role::mlp_up},
          {.name = "bias", .tensor = test::normal({24}, 4, dtype), .role = Role::bias},
          {.name = "position_bias", .tensor = test::normal({2, 6}, 5, dtype), .role = Role::position_bias},
          {.name = "scale", .tensor = test::normal({}, 6, dtype), .role = Role::gain},
          {.name = "head", .tensor = test::normal({9, 8}, 7, dtype), .role = Role::head}};
}

std::vector<Tensor> gradients_of(const std::vector<Param>& params, uint64_t seed,
                                 at::ScalarType dtype = at::kFloat) {
  std::vector<Tensor> gradients;
  gradients.reserve(params.size());
  for (const Param& param : params) gradients.push_back(test::normal(param.tensor.sizes(), ++seed, dtype));
  return gradients;
}

std::vector<Tensor> copies(const std::vector<Param>& params) {
  std::vector<Tensor> tensors;
  tensors.reserve(params.size());
  for (const Param& param : params) tensors.push_back(param.tensor.clone());
  return tensors;
}

void expect_equal(const std::vector<Param>& params, const std::vector<Tensor>& expected) {
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(params[i].tensor.equal(expected[i])) << params[i].name;
  }
}

TEST(Optimizer, AMuonStepIsThePlainFormula) {
  const Tensor w = test::normal({6, 10}, 1), before = w.clone();
  const Tensor g0 = test::normal({6, 10}, 2), g1 = test::normal({6, 10}, 3);
  Optimizer optimizer({{.name = "w", .tensor = w}}, {.lr = 0.5, .weight_decay = 0.25, .momentum = 0.75});
  const auto infos = optimizer.step_({&g0, 1}, 0.5, 0);
  const double unit = std::sqrt(6.0 / 10.0);
  Tensor m = g0.mul(0.25);
  Tensor expected = before.mul(1.0 - 0.25 * 0.25).sub(orthogonalize(m).mul(unit), 0.25);
  EXPECT_LT(largest_difference(w, expected), 1e-13);
  EXPECT_EQ(infos.at(0).learning_rate, 0.25);
  EXPECT_EQ(infos[0].decay, 0.25);
  EXPECT_EQ(infos[0].update_bound, update_bound(Coefficients::six_step));

  optimizer.step_({&g1, 1}, 0.25, 1);
  m = m.mul(0.75).add(g1, 0.25);
  expected = expected.mul(1.0 - 0.25 * 0.125).sub(orthogonalize(m).mul(unit), 0.125);
  EXPECT_LT(largest_difference(w, expected), 1e-13);
}

TEST(Optimizer, UsesNesterovWarmUpAndTheNamedCoefficients) {
  const Tensor w = at::zeros({4, 4}, at::kDouble), g = test::normal({4, 4}, 2);
  Optimizer optimizer({{.name = "w", .tensor = w}}, {.lr = 1.0,
                                                     .momentum = 0.75,
                                                     .momentum_start = 0.25,
                                                     .momentum_warmup_steps = 2,
                                                     .nesterov = true,
                                                     .ns_coefficients = Coefficients::five_step});
  const Tensor h = test::normal({4, 4}, 3);
  optimizer.step_({&g, 1}, 0.0, 0);
  EXPECT_EQ(w.abs().max().item<double>(), 0.0);
  const auto infos = optimizer.step_({&h, 1}, 1.0, 1);
  const Tensor m = g.mul(0.75).mul(0.5).add(h, 0.5);
  const Tensor expected = orthogonalize(h.mul(0.5).add(m, 0.5), Coefficients::five_step).neg();
  EXPECT_LT(largest_difference(w, expected), 1e-12);
  EXPECT_EQ(infos.at(0).update_bound, update_bound(Coefficients::five_step));
}

TEST(Optimizer, AnEmbeddingsRowsMoveByTheRateAtMost) {
  const Tensor table = test::normal({5, 16}, 1), before = table.clone();
  const Tensor g = test::normal({5, 16}, 2);
  g[1].zero_();
  g[2].mul_(1e-6);
  Optimizer optimizer({{.name = "e", .tensor = table, .role = Role::embedding}},
                      {.lr = 0.5, .momentum = 0.5});
  const auto infos = optimizer.step_({&g, 1}, 1.0, 0);
  const Tensor rms = before.sub(table).square().mean(-1).sqrt();
  EXPECT_NEAR(rms[0].item<double>(), 0.5, 1e-14);
  EXPECT_EQ(rms[1].item<double>(), 0.0);
  EXPECT_LT(largest_difference(before[2].sub(table[2]), g[2].mul(0.5 * 16 * 0.5)), 1e-14);
  EXPECT_EQ(infos.at(0).update_bound, 1.0);
  EXPECT_EQ(infos[0].learning_rate, 0.5);
}

TEST(Optimizer, AdamwStepsByTheRateAndDecaysByItsShare) {
  const Tensor a = at::full({2, 2}, 1.0, at::kDouble), b = at::full({2, 2}, 1.0, at::kDouble);
  Optimizer optimizer(
      {{.name = "a", .tensor = a}, {.name = "b", .tensor = b}},
      {.method = OptimizerMethod::adamw, .lr = 0.5, .weight_decay = 1.0, .beta1 = 0.5, .beta2 = 0.75});
  const std::vector<Tensor> g = {at::full({2, 2}, 3.0, at::kDouble), at::full({2, 2}, -3.0, at::kDouble)};
  const auto infos = optimizer.step_(g, 0.5, 0);
  EXPECT_EQ(optimizer.shares(), std::vector<double>(2, 0.5));
  EXPECT_LT(largest_difference(a, at::full({2, 2}, 0.875 - 0.25, at::kDouble)), 1e-12);
  EXPECT_LT(largest_difference(b, at::full({2, 2}, 0.875 + 0.25, at::kDouble)), 1e-12);
  EXPECT_EQ(infos.at(1).learning_rate, 0.125);
  EXPECT_EQ(infos[1].decay, 1.0);
  EXPECT_FALSE(infos[1].has_update_bound());
}

// The loss falls with each of them, and most with the first: of the gradient only what turns them is followed.
TEST(Optimizer, TurnsTheCoefficientsOfAMixture) {
  const Param c{
      .name = "c", .tensor = at::full({3}, std::sqrt(1.0 / 3.0), at::kFloat), .role = Role::mixing_weight};
  Optimizer optimizer({c}, {.bias_correction = true, .adam_lr = 0.04});
  Tensor gradient = at::full({3}, -1.0, at::kFloat);
  gradient[0] = -1.2;
  const Tensor before = c.tensor.clone();
  optimizer.step_(std::vector{gradient}, 1.0, 0);
  const Tensor moved = c.tensor.sub(before);
  EXPECT_NEAR(moved[0].item<double>(), 0.01, 1e-5);  // a quarter of adam_lr
  EXPECT_NEAR(moved[1].item<double>(), -0.01, 1e-5);
  EXPECT_NEAR(moved[2].item<double>(), -0.01, 1e-5);
}

TEST(Optimizer, TakesStepsRelativeToAFactorOfEachWeight) {
  const Tensor start = test::normal({6, 4}, 1);
  const auto moved = [&](double factor) {
    Param param{.name = "w", .tensor = start.clone()};
    Optimizer optimizer({param}, {.lr = 0.1, .weight_decay = 0.1});
    optimizer.set_rate_factors({factor});
    const auto infos = optimizer.step_(std::vector<Tensor>{test::normal({6, 4}, 2)}, 0.5, 0);
    EXPECT_DOUBLE_EQ(infos[0].learning_rate, 0.05 * factor);
    return param.tensor.sub(start).norm().item<double>();
  };
  EXPECT_NEAR(moved(0.25), 0.25 * moved(1.0), 1e-6);
  Optimizer optimizer({{.name = "w", .tensor = start.clone()}}, {});
  EXPECT_ERROR(optimizer.set_rate_factors({1.0, 1.0}), InputError, "2 rate factors for 1 weights");
  EXPECT_ERROR(optimizer.set_rate_factors({0.0}), InputError, "positive");
}

TEST(Optimizer, ClippingCutsTheNormOfAllGradientsTogetherAndLeavesThemAlone) {
  const auto run = [](double scale, double clip) {
    const auto params = small_model(at::kDouble);
    auto gradients = gradients_of(params, 20, at::kDouble);
    double square = 0.0;
    for (const Tensor& g : gradients) square += g.square().sum().item<double>();
    for (Tensor& g : gradients) g.mul_(scale / std::sqrt(square));
    auto before = gradients;
    for (Tensor& g : before) g = g.clone();
    Optimizer optimizer(params, {.eps = 1.0, .gradient_clip = clip});
    optimizer.step_(gradients, 1.0, 0);
    EXPECT_NEAR(optimizer.gradient_norm(), scale, 1e-12);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(gradients[i].equal(before[i]));
    return optimizer.state();
  };
  const auto clipped = run(10.0, 2.0), same = run(2.0, 0.0), below = run(2.0, 2.5);
  for (const auto& [name, tensor] : same) {
    EXPECT_LT(largest_difference(clipped.at(name), tensor), 1e-14) << name;
    EXPECT_TRUE(below.at(name).equal(tensor)) << name;
  }
}

TEST(Optimizer, GradientsOfAnySizeAreUsedAsLongAsTheyAreFinite) {
  for (const double size : {1e-30, 1e30}) {
    const Tensor w = at::zeros({8, 8}), g = test::normal({8, 8}, 1).mul(size).to(at::kFloat);
    Optimizer optimizer({{.name = "w", .tensor = w}}, {.lr = 1.0, .gradient_clip = 1.0});
    optimizer.step_({&g, 1}, 1.0, 0);
    EXPECT_GT(test::singular_values(w).min().item<double>(), 0.95) << size;
    EXPECT_LT(test::spectral_norm(w), 1.001) << size;
  }
}

TEST(Optimizer, RefusesNanAndInfWithoutChangingAnything) {
  for (const double bad : {double(NAN), double(INFINITY)}) {
    for (const char* name : {"embedding", "up", "bias", "scale", "head"}) {
      const auto params = small_model();
      Optimizer optimizer(params, {});
      optimizer.step_(gradients_of(params, 30), 1.0, 0);
      const auto weights = copies(params);
      const auto state = optimizer.state();
      auto gradients = gradients_of(params, 40);
      for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].name == name) gradients[i].view({-1})[-1].fill_(bad);
      }
      EXPECT_ERROR(optimizer.step_(gradients, 1.0, 1), NumericError, std::string("gradient of ") + name);
      expect_equal(params, weights);
      for (const auto& [key, tensor] : optimizer.state()) EXPECT_TRUE(tensor.equal(state.at(key))) << key;
    }
  }
}

TEST(Optimizer, RefusesGradientsAndStepsThatDoNotFit) {
  const auto params = small_model();
  Optimizer optimizer(params, {});
  const auto weights = copies(params);
  auto gradients = gradients_of(params, 30);
  EXPECT_ERROR(optimizer.step_(std::span(gradients).first(2), 1.0, 0), InputError, "2 gradients for 7");
  EXPECT_THROW(optimizer.step_(gradients, -1.0, 0), InputError);
  EXPECT_THROW(optimizer.step_(gradients, NAN, 0), InputError);
  EXPECT_THROW(optimizer.step_(gradients, 1.0, -1), InputError);
  gradients[6] = at::zeros({8, 9});
  EXPECT_ERROR(optimizer.step_(gradients, 1.0, 0), InputError, "gradient of head is [8, 9]");
  gradients[6] = Tensor();
  EXPECT_ERROR(optimizer.step_(gradients, 1.0, 0), InputError, "gradient of head is undefined");
  expect_equal(params, weights);
}

TEST(Optimizer, GoesOnBitForBitFromASavedState) {
  for (const OptimizerMethod method : {OptimizerMethod::muon, OptimizerMethod::adamw}) {
    const OptimizerOptions options{.method = method,
                                   .weight_decay = 0.1,
                                   .momentum_start = 0.5,
                                   .momentum_warmup_steps = 5,
                                   .nesterov = true,
                                   .bias_correction = true,
                                   .gradient_clip = 1.0};
    const auto params = small_model(), resumed = small_model();
    Optimizer optimizer(params, options);
    for (int64_t t = 0; t < 3; ++t) {
      optimizer.step_(gradients_of(params, 50 + 10 * static_cast<uint64_t>(t)), 1.0, t);
    }
    Optimizer second(resumed, options);
    second.set_state(optimizer.state());
    for (size_t i = 0; i < params.size(); ++i) resumed[i].tensor.copy_(params[i].tensor);
    for (int64_t t = 3; t < 7; ++t) {
      const auto gradients = gradients_of(params, 50 + 10 * static_cast<uint64_t>(t));
      optimizer.step_(gradients, 0.5, t);
      second.step_(gradients, 0.5, t);
    }
    expect_equal(resumed, copies(params));
    const auto state = second.state();
    for (const auto& [name, tensor] : optimizer.state()) EXPECT_TRUE(state.at(name).equal(tensor)) << name;
  }
}

TEST(Optimizer, TheStateIsACopyUnderTheWeightsNames) {
  const auto params = small_model();
  Optimizer optimizer(params, {});
  const auto state = optimizer.state();
  optimizer.step_(gradients_of(params, 60), 1.0, 0);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) {
    names.push_back(name);
    EXPECT_EQ(tensor.abs().max().item<float>(), 0.0F) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"bias.momentum", "bias.second_moment", "embedding.momentum",
                                             "head.momentum", "key.momentum", "position_bias.momentum",
                                             "position_bias.second_moment", "scale.momentum",
                                             "scale.second_moment", "up.momentum"}));
}

TEST(Optimizer, RefusesAStateThatIsNotItsOwnAndKeepsItsOwn) {
  const auto params = small_model();
  Optimizer optimizer(params, {});
  optimizer.step_(gradients_of(params, 70), 1.0, 0);
  const auto own = optimizer.state();
  const auto expect_refused = [&](const char* name, const Tensor& tensor, const char* part) {
    auto state = own;
    for (auto& [key, value] : state) value = value.add(1.0);
    if (tensor.defined()) {
      state[name] = tensor;
    } else {
      state.erase(name);
    }
    EXPECT_ERROR(optimizer.set_state(state), InputError, part);
    for (const auto& [key, value] : optimizer.state()) EXPECT_TRUE(value.equal(own.at(key))) << key;
  };
  expect_refused("up.momentum", {}, "up.momentum is missing");
  expect_refused("up.second_moment", at::zeros({24, 8}), "up.second_moment");
  expect_refused("up.momentum", at::zeros({8, 24}), "up.momentum is Float [8, 24]");
  expect_refused("up.momentum", at::zeros({24, 8}, at::kDouble), "up.momentum is Double");
  expect_refused("up.momentum", at::full({24, 8}, NAN), "up.momentum holds NaN or Inf");
}

TEST(Optimizer, RefusesTwoWeightsOfOneName) {
  const Tensor w = at::zeros({2, 2});
  EXPECT_ERROR(Optimizer({{.name = "w", .tensor = w}, {.name = "w", .tensor = w.clone()}}, {}), InputError,
               "two weights are called w");
}

TEST(Optimizer, StepsInPlaceOnViewsAndOnWeightsThatRequireGradients) {
  const Tensor fused = test::normal({12, 4}, 1, at::kFloat).requires_grad_();
  const Tensor before = fused.detach().clone();
  Optimizer optimizer({{.name = "k", .tensor = fused.narrow(0, 4, 4), .role = Role::key, .blocks = 2}}, {});
  const Tensor g = test::normal({4, 4}, 2, at::kFloat);
  optimizer.step_({&g, 1}, 1.0, 0);
  const Tensor change = fused.detach().sub(before).abs().sum(-1);
  EXPECT_GT(change.narrow(0, 4, 4).min().item<float>(), 0.0F);
  EXPECT_EQ(change.narrow(0, 0, 4).max().item<float>() + change.narrow(0, 8, 4).max().item<float>(), 0.0F);
}

TEST(Optimizer, KeepsFloat32AveragesOfBfloat16WeightsAndRoundsThemOnce) {
  const Tensor w = test::normal({6, 10}, 1, at::kBFloat16), g = test::normal({6, 10}, 2, at::kBFloat16);
  const Tensor wide = w.to(at::kFloat), wide_gradient = g.to(at::kFloat);
  const OptimizerOptions options{.lr = 0.25, .weight_decay = 0.5};
  Optimizer narrow({{.name = "w", .tensor = w}}, options),
      reference({{.name = "w", .tensor = wide}}, options);
  narrow.step_({&g, 1}, 1.0, 0);
  reference.step_({&wide_gradient, 1}, 1.0, 0);
  EXPECT_TRUE(w.equal(wide.to(at::kBFloat16)));
  EXPECT_TRUE(narrow.state().at("w.momentum").equal(reference.state().at("w.momentum")));
}

}  // namespace
}  // namespace bridle
