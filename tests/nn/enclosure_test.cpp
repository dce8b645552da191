#include "nn/enclosure.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/words.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

Param weight(const at::Tensor& values) { return {.name = "w", .tensor = values, .role = Role::linear}; }

TEST(AnEnclosedProduct, HasTheErrorOfItsPrecision) {
  const Param w = weight(at::tensor({3.0F, 4.0F}).view({1, 2}));
  ErrorWalk walk({{Arithmetic::float32(), 0.0}, {Arithmetic::float32(), 0.5}, {Arithmetic::bfloat16(), 0.0}});
  const Enclosure y = enclose_product(walk.start(at::ones({1, 2}, at::kDouble)), w, nullptr, 0, walk);
  EXPECT_EQ(y.values.item<double>(), 7.0);
  const double float64 = y.error[0].item<double>(), float32 = y.error[1].item<double>();
  EXPECT_GT(float64, 5 * 0x1p-53);
  EXPECT_LT(float64, 100 * 0x1p-53);
  EXPECT_NEAR(float32 / float64, 0x1p29, 0x1p24);
  EXPECT_GT(y.error[2].item<double>(), float32);  // at x′ the signal may be larger
  EXPECT_GT(y.error[3].item<double>(), 7 * 0x1p-8);
  EXPECT_LT(y.error[3].item<double>(), 20 * 0x1p-8);
  EXPECT_NEAR(y.reach[2].item<double>(), 2.5, 1e-4);
  EXPECT_LT(y.reach[1].item<double>(), 1e-100);
}

TEST(AnEnclosedProduct, KnowsNothingWhereAProgramMayOverflow) {
  const Param w = weight(at::tensor({1e30F, 1e30F}).view({1, 2}));
  ErrorWalk walk({{Arithmetic::float32(), 0.0}});
  const Enclosure y =
      enclose_product(walk.start(at::ones({1, 2}, at::kDouble).mul(1e9)), w, nullptr, 0, walk);
  EXPECT_TRUE(std::isfinite(y.error[0].item<double>()));
  EXPECT_TRUE(std::isinf(y.error[1].item<double>()));
}

TEST(AWalkOfTheRounding, KeepsTheReachBelowWhatIsKnownOtherwise) {
  ErrorWalk walk({{Arithmetic::float32(), 1.0}, {Arithmetic::float32(), 2.0}});
  walk.reach_limits = {{}, {{"layer", 0.25}}, {{"another", 0.25}}};
  const Enclosure x = walk.record("layer", walk.start(at::ones({1, 4}, at::kDouble)));
  EXPECT_EQ(x.reach[1].item<double>(), 0.25);
  EXPECT_EQ(x.reach[2].item<double>(), 2.0);
  EXPECT_GE(walk.activations.at("layer").to_double(), 1.0);
  EXPECT_LT(walk.activations.at("layer").to_double(), 1.00001);
}

// What a value that is not a number can touch has no bound, and says so.
TEST(AWalkOfTheRounding, SaysThatNothingIsKnownOfNaN) {
  ErrorWalk walk;
  walk.record("layer", walk.start(at::ones({1, 4}, at::kDouble).mul(std::nan(""))));
  EXPECT_TRUE(walk.activations.at("layer").is_unbounded());
}

// Every family of options, every program: the program's own logits lie within its error of the float64 ones.
class Programs : public testing::TestWithParam<at::ScalarType> {};

std::vector<ModelOptions> families() {
  std::vector<TransformerOptions> list(11, test::small_transformer());
  list[1].positions = PositionKind::learned;
  list[2].bias = true;
  list[2].norm = NormLayer::layer_norm;
  list[3].norm = NormLayer::rms_norm;
  list[4].tie_embeddings = true;
  list[5].residual = ResidualKind::plain;
  list[5].norm = NormLayer::tanh;
  list[6].learnable_scales = list[6].position_bias = list[6].logit_bias = true;
  list[7].activation = ActivationKind::relu;
  list[8].activation = ActivationKind::gelu;
  list[8].attention_alpha = 0.7;
  list[9].activation = ActivationKind::maxmin;
  list[10].num_key_value_heads = 2;
  std::vector<ModelOptions> all(list.begin(), list.end());
  for (const ActivationKind kind : all_values<ActivationKind>())
    all.emplace_back(MlpOptions{.layer_sizes = {16, 12, 8, 5}, .activation = kind, .final_scale = -3.0});
  return all;
}

TEST_P(Programs, StayWithinTheirErrorAtAndAroundTheInput) {
  const at::NoGradGuard no_gradients;
  const Arithmetic arithmetic = GetParam() == at::kFloat ? Arithmetic::float32() : Arithmetic::bfloat16();
  for (const ModelOptions& options : families()) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto model = test::random_model(options, 0.2 + 0.2 * static_cast<double>(seed), 10 * seed + 1);
      const bool mlp = model->shape().input == InputKind::vectors;
      const at::Tensor x =
          mlp ? test::normal({5, 16}, seed, at::kFloat) : test::normal({3, 8, 16}, seed, at::kFloat);
      constexpr double radius = 0.1;
      ErrorWalk walk({{arithmetic, 0.0}, {arithmetic, radius}});
      const LogitEnclosure all = model->enclose(x.to(at::kDouble), walk);
      const auto expect_inside = [&](const at::Tensor& input, int64_t which) {
        Pass narrow{.dtype = GetParam()}, wide{.dtype = at::kDouble};
        const at::Tensor program = model->forward_from(input.to(GetParam()), narrow).to(at::kDouble);
        const at::Tensor exact = model->forward_from(input.to(at::kDouble), wide);
        const at::Tensor off = program.sub(exact).abs().amax(-1);
        const at::Tensor allowed = all.error[which].add(all.error[0], 2.0);
        EXPECT_TRUE(off.le(allowed).all().item<bool>())
            << "off " << off.max().item<double>() << ", allowed " << allowed.min().item<double>();
      };
      expect_inside(x, 1);
      at::Tensor step = test::normal(x.sizes(), seed + 77, at::kFloat);
      step = step.div(step.square().sum(-1, true).sqrt()).mul(radius * (1.0 - 1e-5));
      expect_inside(x.add(step), 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Programs, testing::Values(at::kFloat, at::kBFloat16));

// The reach of a perturbation is never exceeded, and for small ones it is no worse than a few times what happens.
TEST(TheReachOfAPerturbation, IsNeverExceeded) {
  const at::NoGradGuard no_gradients;
  for (const ModelOptions& options : families()) {
    const auto model = test::random_model(options, 0.3);
    const bool mlp = model->shape().input == InputKind::vectors;
    const at::Tensor x = mlp ? test::normal({4, 16}, 3) : test::normal({2, 8, 16}, 3);
    const at::Tensor rows = model->logit_rows().to(at::kDouble);
    const double longest = rows.square().sum(1).max().sqrt().item<double>() * std::abs(model->logit_scale());
    for (const double radius : {1e-3, 0.3}) {
      ErrorWalk walk({{Arithmetic::float64(), radius}});
      const LogitEnclosure all = model->enclose(x, walk);
      Pass pass{.dtype = at::kDouble};
      const at::Tensor before = model->forward_from(x, pass);
      for (uint64_t seed = 0; seed < 20; ++seed) {
        at::Tensor step = test::normal(x.sizes(), seed + 9);
        step = step.div(step.square().sum(-1, true).sqrt()).mul(radius);
        const at::Tensor change = model->forward_from(x.add(step), pass).sub(before).abs().amax(-1);
        EXPECT_TRUE(change.le(all.reach[1].mul(longest).mul(1.0 + 1e-9)).all().item<bool>());
      }
    }
  }
}

TEST(LayersInBfloat16, AddUpInFloat32Here) { EXPECT_TRUE(bfloat16_layers_add_in_float32()); }

// Sums in so many accumulators of bfloat16, which are added up in float32 at the end.
TEST(LayersInBfloat16, AreSeenToAddUpInBfloat16) {
  for (const int64_t lanes : {1, 4, 16, 32, 64}) {
    const bool seen = adds_in_float32([lanes](const at::Tensor& x, const at::Tensor& w) {
      const at::Tensor products = x.reshape({-1, 1, x.size(-1)}).mul(w);  // [rows, outputs, n]
      at::Tensor sums = at::zeros({products.size(0), products.size(1), lanes}, at::kBFloat16);
      for (int64_t i = 0; i < x.size(-1); i += lanes) sums = sums.add(products.narrow(2, i, lanes));
      return sums.to(at::kFloat).sum(2).to(at::kBFloat16);
    });
    EXPECT_FALSE(seen) << lanes;
  }
}

}  // namespace
}  // namespace bridle
