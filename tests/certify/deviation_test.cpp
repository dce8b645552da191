// Searches for inputs whose logits in two models are farther apart than the bound says.
#include "certify/deviation.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "bridle/error.h"
#include "export_support.h"
#include "file_support.h"
#include "linalg/int8_rows.h"
#include "support.h"

namespace bridle {
namespace {

std::unique_ptr<Model> copy_with(const Model& model, const std::function<at::Tensor(const Param&)>& change) {
  size_t next = 0;
  return make_model_from(
      [&](const std::string&, at::IntArrayRef) { return change(model.params().at(next++)).detach().clone(); },
      model.options().value());
}

// Every matrix and table but the embedding moves by noise of this size relative to it.
std::unique_ptr<Model> noisy(const Model& model, double size, uint64_t seed) {
  return copy_with(model, [&](const Param& param) {
    if (!is_matrix(param.role) && !is_table(param.role)) return param.tensor;
    if (param.role == Role::embedding) return param.tensor;  // inputs are the same then
    const double deviation = size * param.tensor.std().item<double>();
    return param.tensor.detach().add(test::normal(param.tensor.sizes(), seed++, at::kFloat).mul(deviation));
  });
}

std::unique_ptr<Model> quantized(const Model& model) {
  return copy_with(model, [](const Param& param) {
    return is_matrix(param.role) || is_table(param.role) ? int8_rows(param.tensor).values()
                                                         : param.tensor.detach();
  });
}

struct Found {
  double rms = 0.0, largest = 0.0;
};

void include(Found& found, const at::Tensor& apart) {
  found.rms = std::max(found.rms, apart.square().mean(-1).sqrt().max().item<double>());
  found.largest = std::max(found.largest, apart.abs().max().item<double>());
}

// Into the ball of the radius, token by token.
at::Tensor inside(const at::Tensor& x, double radius) {
  const at::Tensor rms = x.square().mean(-1, /*keepdim=*/true).sqrt();
  return x.mul(rms.clamp_min(1e-300).reciprocal().mul(radius).clamp_max(1.0));
}

// Gradient ascent of the distance over embedded sequences, or vectors, of the ball.
Found search(const Model& a, const Model& b, double radius, uint64_t seed, int rounds) {
  const ModelShape shape = a.shape();
  const bool tokens = shape.input == InputKind::tokens;
  at::Tensor x = tokens ? test::normal({6, 5, shape.size}, seed) : test::normal({12, shape.size}, seed);
  x = x.div(x.square().mean(-1, true).sqrt()).mul(radius);
  Found found;
  for (int i = 0; i < rounds; ++i) {
    const at::Tensor leaf = inside(x, radius).detach().requires_grad_(true);
    Pass first{.dtype = at::kDouble}, second{.dtype = at::kDouble};
    const at::Tensor apart = a.forward_from(leaf, first).sub(b.forward_from(leaf, second));
    include(found, apart.detach());
    const at::Tensor square = tokens ? apart.square().mean(-1).amax(1).sum() : apart.square().mean(-1).sum();
    const at::Tensor slope = torch::autograd::grad({square}, {leaf})[0];
    const at::Tensor size = slope.square().mean(-1, true).sqrt().amax().clamp_min(1e-300);
    x = leaf.detach().add(slope.div(size).mul(radius * (i % 3 == 0 ? 0.5 : 0.1)));
  }
  return found;
}

void expect_bound(const DeviationBound& bound, const Found& found, const std::string& name) {
  EXPECT_LE(found.rms, bound.deviation.value) << name;
  EXPECT_LE(found.largest, bound.largest_logit.value) << name;
  EXPECT_GT(found.rms, 0.0) << name;
}

std::vector<test::NamedModel> models() {
  auto all = test::exported_mlps();
  for (const test::NamedModel& own : test::exported_transformers()) {
    TransformerOptions options = std::get<TransformerOptions>(own.options);
    if (options.document_token >= 0 || options.learnable_scales)
      continue;  // begins and head are given otherwise below
    options.norm_epsilon = 0.1;
    all.push_back({own.name, options});
  }
  return all;
}

TEST(Deviation, IsNeverExceededByASearchOverContinuousInputs) {
  for (const test::NamedModel& own : models()) {
    for (const double size : {0.01, 0.5}) {
      const auto model = test::trained_like(own.options);
      const auto other = noisy(*model, size, 7);
      const DeviationBound bound = deviation_bound(*model, *other);
      expect_bound(bound, search(*model, *other, bound.domain_radius, 3, 15), own.name);
      expect_bound(bound, search(*other, *model, bound.domain_radius, 4, 5), own.name);
    }
  }
}

TEST(Deviation, IsNeverExceededByTokensOfQuantisedTables) {
  const at::NoGradGuard no_gradients;
  for (const test::NamedModel& own : test::exported_transformers()) {
    const auto model = test::trained_like(own.options);
    const auto other = quantized(*model);
    const DeviationBound bound = deviation_bound(*model, *other);
    const ModelShape shape = model->shape();
    Found found;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const at::Tensor tokens = test::normal({8, 19}, seed).mul(1e4).to(at::kLong).remainder(shape.outputs);
      Pass first{.dtype = at::kDouble}, second{.dtype = at::kDouble};
      include(found, model->forward(tokens, first).sub(other->forward(tokens, second)));
    }
    expect_bound(bound, found, own.name);
  }
}

// A bound that is far off would hide a mistake: of one layer it is reached, of two without an activation's loss nearly.
TEST(Deviation, IsReachedBySmallModels) {
  const auto one = test::trained_like(MlpOptions{.layer_sizes = {2, 2}, .final_scale = -2.0}, 5);
  const auto other = noisy(*one, 0.3, 1);
  const DeviationBound bound = deviation_bound(*one, *other);
  EXPECT_GT(search(*one, *other, bound.domain_radius, 1, 200).rms, 0.999 * bound.deviation.value);
  double best = 0.0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto two =
        test::trained_like(MlpOptions{.layer_sizes = {2, 2, 2}, .activation = ActivationKind::abs}, seed + 1);
    const auto near = noisy(*two, 0.1, seed);
    const DeviationBound deep = deviation_bound(*two, *near);
    best = std::max(best, search(*two, *near, deep.domain_radius, seed, 100).rms / deep.deviation.value);
  }
  EXPECT_GT(best, 0.5);
}

TEST(Deviation, IsNothingForTheSameWeights) {
  for (const test::NamedModel& own : models()) {
    const auto model = test::trained_like(own.options);
    EXPECT_LT(deviation_bound(*model, *model).deviation.value, 1e-100) << own.name;
  }
}

TEST(Deviation, IsOnlyOfModelsThatDifferInMatricesAndTables) {
  const MlpOptions options{.layer_sizes = {4, 6, 3}, .bias = true};
  const auto model = test::trained_like(options);
  const auto moved = copy_with(*model, [](const Param& param) {
    return param.role == Role::bias ? param.tensor.detach().add(0.1) : param.tensor.detach();
  });
  EXPECT_ERROR(deviation_bound(*model, *moved), InputError, "model.layers.0.bias (bias) does");
  MlpOptions scaled = options;
  scaled.final_scale = 2.0;
  EXPECT_ERROR(deviation_bound(*model, *test::trained_like(scaled)), InputError, "the same options");
  EXPECT_ERROR(deviation_bound(*model, *test::trained_like(test::exported_transformers().front().options)),
               InputError, "the same options");
  auto normed = std::get<TransformerOptions>(test::exported_transformers().front().options);
  normed.norm = NormLayer::rms_norm;
  normed.norm_epsilon = 0.0;
  const auto endless = test::trained_like(normed);
  EXPECT_ERROR(deviation_bound(*endless, *noisy(*endless, 0.1, 1)), PromiseError, "no finite bound");
}

TEST(ADeviation, IsRefusedWhereNoBoundOfItIsKnown) {
  for (const test::NamedModel& own : test::torch_only_transformers())
    EXPECT_ERROR(deviation_bound(*test::trained_like(own.options), *test::trained_like(own.options)),
                 InputError, "no bound of the distance is known");
}

}  // namespace
}  // namespace bridle
