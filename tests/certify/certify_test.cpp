#include "bridle/certify.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// Every option that changes the walk, one at a time and together.
std::vector<ModelOptions> families() {
  std::vector<TransformerOptions> list(12, test::small_transformer());
  list[1].positions = PositionKind::learned;
  list[2].bias = true;
  list[2].norm = NormLayer::layer_norm;
  list[3].norm = NormLayer::rms_norm;
  list[3].norm_epsilon = 0.1;
  list[4].tie_embeddings = true;
  list[4].real_vocab_size = list[4].vocab_size - 2;
  list[5].residual = ResidualKind::plain;
  list[5].norm = NormLayer::tanh;
  list[6].learnable_scales = true;
  list[6].position_bias = list[6].logit_bias = true;
  list[7].activation = ActivationKind::relu;
  list[7].real_vocab_size = list[7].vocab_size - 3;
  list[8].activation = ActivationKind::gelu;
  list[8].softmax_scale = -6.0;
  list[9].activation = ActivationKind::maxmin;
  list[10].num_key_value_heads = 2;
  list[11].num_key_value_heads = 1;
  list[11].bias = true;
  std::vector<ModelOptions> all(list.begin(), list.end());
  all.emplace_back(MlpOptions{.layer_sizes = {12, 9, 7, 5}, .input_bound = 1.5, .final_scale = -3.0});
  all.emplace_back(MlpOptions{.layer_sizes = {12, 8, 6, 5}, .activation = ActivationKind::maxmin});
  all.emplace_back(MlpOptions{.layer_sizes = {12, 7, 5}, .activation = ActivationKind::gelu});
  return all;
}

TEST(ACertificate, HoldsAndChecksForEveryFamily) {
  for (const ModelOptions& options : families()) {
    const auto model = test::random_model(options);
    const CertifiedBound bound = certify(*model, 0.25);
    EXPECT_TRUE(check_bound(*model, bound).empty());
    EXPECT_NEAR(bound.domain_radius, bound.token_radius + 0.25, 1e-9);
    const auto norms = measured_norms();
    Walk walk(*norms);
    const double plain = model->bound(bound.domain_radius, walk).lipschitz.to_double();
    EXPECT_GE(bound.lipschitz.value, plain * (1 - 1e-12));
    EXPECT_LE(bound.lipschitz.value, plain * (1 + 1e-6));
    EXPECT_NEAR(bound.lipschitz.log10, std::log10(bound.lipschitz.value), 1e-9);
    const ObservedStretch found = search_stretch(*model, {.domain = bound.domain_radius, .rounds = 20});
    EXPECT_LE(found.lipschitz, bound.lipschitz.value);
    EXPECT_LE(found.largest_logit, bound.largest_logit.value);
  }
}

// Power iteration, which chooses the heads' scales, overflows here. The proofs do not, or say that they cannot.
TEST(ACertificate, HoldsForHugeWeightsOrIsRefused) {
  int held = 0;
  for (const double size : {1e10, 1e15, 1e18, 1e20, 1e30, 3e37}) {
    const auto model = test::random_model(test::small_transformer(), size);
    try {
      EXPECT_TRUE(check_bound(*model, certify(*model)).empty()) << size;
      ++held;
    } catch (const PromiseError&) {
    }
  }
  EXPECT_GE(held, 2);
}

TEST(ACertificate, IsRefusedOnceAnyNumberIsLowered) {
  for (const ModelOptions& options : families()) {
    const auto model = test::random_model(options);
    const CertifiedBound good = certify(*model);
    constexpr double less = 1.0 - 1e-4;
    const auto refused = [&](const CertifiedBound& bad, const std::string& what) {
      EXPECT_THROW(check_bound(*model, bad), PromiseError) << what;
    };
    for (size_t i = 0; i < good.weights.size(); ++i) {
      for (const auto& [what, values] : good.weights[i].numbers) {
        for (size_t j = 0; j < values.size(); ++j) {
          if (values[j] == 0.0 ||
              (what == "largest_entry" && good.weights[i].name.ends_with("position_bias")))
            continue;
          CertifiedBound bad = good;
          bad.weights[i].numbers[what][j] *= less;
          refused(bad, what + " of " + good.weights[i].name);
        }
      }
      CertifiedBound bad = good;
      bad.weights.erase(bad.weights.begin() + static_cast<int64_t>(i));
      refused(bad, "without " + good.weights[i].name);
    }
    for (size_t i = 0; i < good.layers.size(); ++i) {
      CertifiedBound bad = good;
      bad.layers[i].lipschitz.value *= less;
      refused(bad, "bound of layer");
      bad = good;
      bad.layers[i].activation.log10 -= 1e-4;
      refused(bad, "activation of layer");
      bad = good;
      bad.layers.erase(bad.layers.begin() + static_cast<int64_t>(i));
      refused(bad, "layer missing");
    }
    CertifiedBound bad = good;
    bad.lipschitz.value *= less;
    refused(bad, "lipschitz");
    bad = good;
    bad.lipschitz.log10 -= 1e-4;
    refused(bad, "log10");
    bad = good;
    bad.largest_logit.value *= less;
    refused(bad, "largest logit");
    bad = good;
    bad.token_radius *= less;
    refused(bad, "token_radius");
    bad = good;
    bad.domain_radius *= less;
    refused(bad, "domain_radius");
    bad = good;
    bad.attack_radius = 0.1;
    refused(bad, "attack_radius");
    bad = good;
    bad.attack_radius = -0.1;
    refused(bad, "negative radius");
    for (const double nothing : {std::nan(""), -1.0, HUGE_VAL}) {
      bad = good;
      bad.weights.front().numbers.begin()->second.front() = nothing;
      refused(bad, "no number");
    }
    bad = good;
    bad.weights.push_back(bad.weights.front());
    refused(bad, "two entries");
    bad = good;
    bad.weights.push_back({.name = "model.other.weight", .shape = {1}, .method = "sums"});
    refused(bad, "an entry about nothing");
  }
}

TEST(ACertificate, IsRefusedForOtherWeights) {
  const auto model = test::random_model(test::small_transformer());
  const CertifiedBound good = certify(*model);
  for (const Param& param : model->params()) {
    const at::NoGradGuard no_gradients;
    const at::Tensor kept = param.tensor.clone();
    param.tensor.mul_(1.01);
    EXPECT_THROW(check_bound(*model, good), PromiseError) << param.name;
    param.tensor.copy_(kept);
    param.tensor.view({-1})[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(check_bound(*model, good), PromiseError) << param.name;
    param.tensor.copy_(kept);
  }
  EXPECT_TRUE(check_bound(*model, good).empty());
}

TEST(ACertificate, ThatSaysMoreThanItMustIsValidButNotTight) {
  const auto model = test::random_model(test::small_transformer());
  CertifiedBound loose = certify(*model);
  loose.lipschitz = {2.0 * loose.lipschitz.value, loose.lipschitz.log10 + std::log10(2.0)};
  const auto remarks = check_bound(*model, loose);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_NE(remarks[0].find("lipschitz could be"), std::string::npos);

  loose = certify(*model);
  for (StatedLayer& layer : loose.layers) {
    layer.lipschitz = {10.0 * layer.lipschitz.value, layer.lipschitz.log10 + 1.0};
    layer.activation = {10.0 * layer.activation.value, layer.activation.log10 + 1.0};
  }
  loose.lipschitz = {10.0 * loose.lipschitz.value, loose.lipschitz.log10 + 1.0};
  loose.largest_logit = {10.0 * loose.largest_logit.value, loose.largest_logit.log10 + 1.0};
  loose.weights.back().numbers.begin()->second.front() *= 1.01;
  bool seen = false;
  for (const std::string& remark : check_bound(*model, loose))
    seen |= remark.find("a smaller number") != std::string::npos;
  EXPECT_TRUE(seen);
}

TEST(ACertificate, HasAnyExponent) {
  MlpOptions options{.layer_sizes = std::vector<int64_t>(40, 4)};
  const auto model = test::random_model(options, 1e30);
  const CertifiedBound bound = certify(*model);
  EXPECT_TRUE(std::isinf(bound.lipschitz.value));
  EXPECT_GT(bound.lipschitz.log10, 1100.0);
  EXPECT_TRUE(check_bound(*model, bound).empty());
  CertifiedBound bad = bound;
  bad.lipschitz.log10 -= 1e-3;
  EXPECT_THROW(check_bound(*model, bad), PromiseError);
}

TEST(ACertificate, IsNotGivenWithoutABound) {
  TransformerOptions options = test::small_transformer();
  options.norm = NormLayer::layer_norm;
  options.norm_epsilon = 0.0;
  EXPECT_ERROR(certify(*test::random_model(options)), PromiseError, "no finite bound");
  EXPECT_ERROR(certify(*test::random_model(test::small_transformer()), -1.0), InputError,
               "the radius must be 0 or more");
}

TEST(ALocalBound, IsSmallerThanTheGlobalOneAndHolds) {
  TransformerOptions options = test::small_transformer();
  options.softmax_scale = 8.0;
  const auto model = test::random_model(options, 0.2);
  {
    const at::NoGradGuard no_gradients;  // one token is much larger than the others
    for (const Param& param : model->params())
      if (param.role == Role::embedding) param.tensor[0].mul_(20.0);
  }
  const at::Tensor tokens = at::zeros({1, 6}, at::kLong).add(3);
  const double radius = 0.05;
  const CertifiedBound local = certify_near(*model, neighbourhood_of(*model, {tokens}, radius));
  EXPECT_LT(local.lipschitz.value, 0.5 * certify(*model, radius).lipschitz.value);
  Pass pass{.dtype = at::kDouble};
  const at::Tensor x = model->embed(tokens, pass).detach();
  const at::Tensor y = model->forward_from(x, pass);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    at::Tensor step = test::normal(x.sizes(), seed).to(at::kDouble);
    step = step.mul(radius / test::largest_rms(step));
    EXPECT_LE(test::largest_rms(model->forward_from(x.add(step), pass).sub(y)),
              local.lipschitz.value * radius);
  }
}

}  // namespace
}  // namespace bridle
