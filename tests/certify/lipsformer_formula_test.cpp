// The formula of appendix D for weights whose norms are known; it is no certificate (bridle/certify.h).
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "bridle/certify.h"
#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

// τ = 12, ν = 1, ε = 1e-6, output / heads.
TransformerOptions lipsformer() {
  TransformerOptions options = test::small_transformer();
  const auto n = static_cast<double>(options.head_size());
  options.residual = ResidualKind::plain;
  options.learned_alpha = LearnedAlpha::vector;
  options.attention_alpha = options.mlp_alpha = 0.25;
  options.norm = NormLayer::center_norm;
  options.qk_norm = options.value_norm = true;
  options.qk_norm_epsilon = 1e-6 / n;
  options.softmax_scale = 12.0;
  options.attention_output_scale = 1.0 / (std::sqrt(n) * 4.0);
  return options;
}

void set_norms_(const Model& model, const std::map<Role, double>& norms) {
  const at::NoGradGuard no_gradients;
  for (const Param& param : model.params()) {
    const auto norm = norms.find(param.role);
    if (norm == norms.end()) continue;
    param.tensor.zero_();
    param.tensor.fill_diagonal_(norm->second);  // of the matrix itself, not RMS to RMS
  }
}

TEST(LipsformerFormula, IsTheProductOfTheorem1OverAllBranches) {
  const TransformerOptions options = lipsformer();
  const auto model = make_model(options, 1);
  set_norms_(*model, {{Role::query, 1.5},
                      {Role::key, 0.5},
                      {Role::value, 2.0},
                      {Role::attention_output, 7.0},  // plays no part
                      {Role::mlp_up, 3.0},
                      {Role::mlp_down, 0.7},
                      {Role::head, 9.0}});
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params())
      if (param.name == "model.layers.1.attention_alpha") param.tensor[3] = 0.5;  // its largest entry counts
  }
  const double n = 4.0;
  const double attention =
      1e3 * (2.0 * n * (n - 1.0) * 12.0 * 0.5 + 2.0 * (n - 1.0) * 12.0 * 1.5 + 2.0 * n * 2.0);
  const double mlp = 2.1 / options.activation_divisor;
  const double expected =
      (1.0 + 0.25 * attention) * (1.0 + 0.5 * attention) * std::pow(1.0 + 0.25 * mlp, 2.0);
  EXPECT_NEAR(lipsformer_formula(*model, *measured_norms()).to_double() / expected, 1.0, 1e-6);
}

// The paper's figure, 10^129.3, is that of twelve blocks with heads of 128.
TEST(LipsformerFormula, ReachesThePapersOrderOfMagnitude) {
  TransformerOptions options = lipsformer();
  options.hidden_size = 256;
  options.num_attention_heads = 2;
  options.num_hidden_layers = 12;
  options.qk_norm_epsilon = 1e-6 / 128.0;
  options.attention_output_scale = 1.0 / (std::sqrt(128.0) * 2.0);
  options.attention_alpha = 0.5;
  options.mlp_alpha = 0.15;
  const auto model = make_model(options, 1);
  const double key = 50.0;
  set_norms_(*model, {{Role::query, key},
                      {Role::key, key},
                      {Role::value, key},
                      {Role::mlp_up, 10.0},
                      {Role::mlp_down, 10.0}});
  const double attention = 1e3 * key * (2.0 * 128.0 * 127.0 * 12.0 + 2.0 * 127.0 * 12.0 + 2.0 * 128.0);
  const double expected =
      12.0 * std::log10((1.0 + 0.5 * attention) * (1.0 + 0.15 * 100.0 / options.activation_divisor));
  const UpperBound value = lipsformer_formula(*model, *measured_norms());
  EXPECT_NEAR(value.log10(), expected, 1e-6);
  EXPECT_GT(value.log10(), 100.0);
  EXPECT_LT(value.log10(), 150.0);
}

TEST(LipsformerFormula, RefusesModelsThatAreNotLipsformer) {
  const auto refused = [](const char* what, auto change) {
    TransformerOptions options = lipsformer();
    change(options);
    const auto model = make_model(options, 1);
    EXPECT_ERROR(lipsformer_formula(*model, *measured_norms()), InputError, what);
  };
  refused("qk_norm and value_norm", [](TransformerOptions& o) { o.value_norm = false; });
  refused("qk_norm and value_norm", [](TransformerOptions& o) { o.qk_norm = false; });
  refused("an epsilon above 0", [](TransformerOptions& o) { o.qk_norm_epsilon = 0.0; });
  refused("plain residuals", [](TransformerOptions& o) { o.residual = ResidualKind::convex; });
  refused("fixed scales", [](TransformerOptions& o) { o.learnable_scales = true; });
  refused("slope is limited", [](TransformerOptions& o) { o.activation = ActivationKind::relu_squared; });
  const auto mlp = make_model(MlpOptions{.layer_sizes = {12, 8, 3}}, 1);
  EXPECT_ERROR(lipsformer_formula(*mlp, *measured_norms()), InputError, "attention");
}

}  // namespace
}  // namespace bridle
