// Whole models that are stretched more than the paper's formula allows, each by one of its mistakes, and less than the
// sound bound allows: why the formula is not a certificate.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bridle/certify.h"

namespace bridle {
namespace {

// One block whose weights are zero but for what a test sets. Tokens have RMS 1, the head is the identity.
std::unique_ptr<Model> one_block(TransformerOptions options) {
  options.vocab_size = options.hidden_size = 16;
  options.num_hidden_layers = 1;
  options.max_position_embeddings = 8;
  options.positions = PositionKind::none;
  auto model = make_model(options, 1);
  const at::NoGradGuard no_gradients;
  for (const Param& param : model->params()) {
    if (param.role == Role::embedding) continue;
    param.tensor.zero_();
    if (param.role == Role::head) param.tensor.fill_diagonal_(1.0);
  }
  return model;
}

at::Tensor weight(const Model& model, Role role) {
  for (const Param& param : model.params())
    if (param.role == role) return param.tensor.detach();
  return {};
}

void expect_exceeded(const Model& model, double at_least) {
  const auto norms = measured_norms();
  const double paper = paper_formula(model, *norms).to_double();
  Walk walk(*norms);
  const double domain = model.input_bound(*norms).to_double();
  const double sound = model.bound(domain, walk).lipschitz.to_double();
  const double observed = search_stretch(model, {.domain = domain, .sequence_length = 4}).lipschitz;
  testing::Test::RecordProperty(
      "stretch", fmt::format("paper {:.5f}, observed {:.5f}, sound {:.5f}", paper, observed, sound));
  EXPECT_GT(observed, at_least * paper);
  EXPECT_LE(observed, sound * (1.0 + 1e-9));
}

TEST(PaperFormulaExceeded, ByHeadsThatReadDifferentTokens) {
  const auto model =
      one_block({.num_attention_heads = 4, .attention_alpha = 0.9, .mlp_alpha = 0.01, .position_bias = true});
  for (int64_t h = 0; h < 4; ++h) {
    weight(*model, Role::position_bias)[h][h].fill_(60.0);  // head h reads h tokens back
    weight(*model, Role::value)[4 * h][h].fill_(1.0);
    weight(*model, Role::attention_output)[h][4 * h].fill_(1.0);
  }
  expect_exceeded(*model, 1.6);
}

TEST(PaperFormulaExceeded, ByOneHeadOfSeveralThatTellsTokensApart) {
  const auto model = one_block({.num_attention_heads = 8, .attention_alpha = 0.9, .mlp_alpha = 0.01});
  weight(*model, Role::query).narrow(0, 0, 2).fill_diagonal_(1.0);
  weight(*model, Role::key)[0][1].fill_(1.0);
  weight(*model, Role::key)[1][0].fill_(1.0);
  weight(*model, Role::value)[0][0].fill_(1.0);
  weight(*model, Role::attention_output)[1][0].fill_(1.0);
  expect_exceeded(*model, 4.0);
}

TEST(PaperFormulaExceeded, ByOneNeuronWhereGeluIsSteepest) {
  const auto model = one_block({.num_attention_heads = 4, .attention_alpha = 0.01, .mlp_alpha = 0.9});
  weight(*model, Role::mlp_up)[0][0].fill_(1.0);
  weight(*model, Role::mlp_down)[0][0].fill_(1.0);
  expect_exceeded(*model, 1.1);
}

TEST(PaperFormulaExceeded, ByASoftmaxScaleBelowOne) {
  const auto model = one_block({.num_attention_heads = 4,
                                .softmax_scale = 0.1,
                                .attention_output_scale = 1.0,
                                .attention_alpha = 0.9,
                                .mlp_alpha = 0.01});
  weight(*model, Role::value).fill_diagonal_(1.0);
  weight(*model, Role::attention_output).fill_diagonal_(1.0);
  expect_exceeded(*model, 3.0);
}

}  // namespace
}  // namespace bridle
