#include "bridle/certify.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// Every matrix of a role gets the norm that is asked for: σ(W)·√(in/out).
void set_norms_(const Model& model, const std::map<Role, double>& norms) {
  const at::NoGradGuard no_gradients;
  for (const Param& param : model.params()) {
    const auto norm = norms.find(param.role);
    if (norm == norms.end()) continue;
    const double unit =
        std::sqrt(static_cast<double>(param.tensor.size(0)) / static_cast<double>(param.tensor.size(1)));
    param.tensor.zero_();
    param.tensor.fill_diagonal_(norm->second * unit);
  }
}

double formula(const Model& model) { return paper_formula(model, *measured_norms()).to_double(); }

TEST(PaperFormula, IsTheOneOfItsCodeForTwoBlocks) {
  TransformerOptions options = test::small_transformer();
  options.softmax_scale = 2.0;
  options.final_scale = -3.0;
  const auto model = make_model(options, 1);
  set_norms_(*model, {{Role::query, 1.5},
                      {Role::key, 0.5},
                      {Role::value, 2.0},
                      {Role::attention_output, 1.25},
                      {Role::mlp_up, 3.0},
                      {Role::mlp_down, 0.7},
                      {Role::head, 0.9}});
  double lipschitz = 1.0;  // rows of the embedding have RMS 1
  double a = 1.0;
  for (int block = 0; block < 2; ++block) {
    lipschitz *= 0.75 + 0.25 * (2.0 / 3.0) * 2.5 * (1.0 + 2.0 * a * a * 0.75);
    a *= 0.75 + 0.25 * 2.5 / 3.0;
    lipschitz *= 0.75 + 0.25 * 2.1 / 1.1289;
    a *= 0.75 + 0.25 * 2.1 / 1.1289;
  }
  EXPECT_NEAR(formula(*model), lipschitz * 0.9 * 3.0, 1e-5);
  EXPECT_NEAR(paper_formula(*model, *measured_norms(), FinalScale::forgotten).to_double(), lipschitz * 0.9,
              1e-5);
}

TEST(PaperFormula, FollowsTheActivation) {
  const auto model = make_model(test::small_transformer(), 1);
  set_norms_(*model, {{Role::attention_output, 1.0}, {Role::mlp_down, 1.0}, {Role::head, 1.0}});
  // α = 1/4 twice: attention 3/4 + 1/4·(1/3)·3 = 1 while a = 1, and the MLP's divisor counts against it.
  const double first_mlp = 0.75 + 0.25 / 1.1289;
  const double a = (0.75 + 0.25 / 3.0) * first_mlp;
  const double second = 0.75 + 0.25 / 3.0 * (1.0 + 2.0 * a * a);
  EXPECT_NEAR(formula(*model), first_mlp * second * first_mlp, 1e-5);
}

TEST(PaperFormula, IsTheProductOfNormsForAnMlp) {
  const auto model = make_model(MlpOptions{.layer_sizes = {12, 8, 3}, .final_scale = -0.5}, 1);
  set_norms_(*model, {{Role::linear, 4.0}, {Role::head, 1.5}});
  EXPECT_NEAR(formula(*model), 3.0, 1e-5);
}

TEST(PaperFormula, TakesExponentsBeyondADouble) {
  TransformerOptions options = test::small_transformer();
  options.num_hidden_layers = 12;
  const auto model = make_model(options, 1);
  set_norms_(*model, {{Role::attention_output, 1e30}, {Role::mlp_down, 1e30}, {Role::head, 1.0}});
  EXPECT_GT(paper_formula(*model, *measured_norms()).log10(), 700.0);
}

TEST(PaperFormula, RefusesModelsThatItIsNotDefinedFor) {
  const auto refused = [](auto change) {
    TransformerOptions options = test::small_transformer();
    change(options);
    const auto model = make_model(options, 1);
    EXPECT_THROW(paper_formula(*model, *measured_norms()), InputError);
  };
  refused([](TransformerOptions& options) { options.norm = NormLayer::tanh; });
  refused([](TransformerOptions& options) { options.norm = NormLayer::rms_norm; });
  refused([](TransformerOptions& options) { options.residual = ResidualKind::plain; });
  refused([](TransformerOptions& options) { options.bias = true; });
  refused([](TransformerOptions& options) { options.tie_embeddings = true; });
  refused([](TransformerOptions& options) { options.positions = PositionKind::learned; });
  refused([](TransformerOptions& options) { options.learnable_scales = true; });
  refused([](TransformerOptions& options) { options.num_key_value_heads = 2; });
  const auto gelu = make_model(MlpOptions{.layer_sizes = {4, 3, 2}, .activation = ActivationKind::gelu}, 1);
  EXPECT_ERROR(paper_formula(*gelu, *measured_norms()), InputError,
               "an activation that is not divided by its slope");
}

}  // namespace
}  // namespace bridle
