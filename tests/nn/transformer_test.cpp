#include "nn/transformer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/words.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

at::Tensor some_tokens() { return random_integers({2, 6}, 11, {.seed = 1}); }

void randomize_(const Model& model, double deviation) {
  const at::NoGradGuard no_gradients;
  uint64_t seed = 40;
  for (const Param& param : model.params())
    param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(deviation));
}

TransformerOptions nanogpt() {
  TransformerOptions options = test::small_transformer();
  options.positions = PositionKind::learned;
  options.activation = ActivationKind::gelu;
  options.activation_divisor = options.attention_output_scale = 1.0;
  options.softmax_scale = 2.0;
  options.residual = ResidualKind::plain;
  options.norm = NormLayer::layer_norm;
  options.bias = options.tie_embeddings = true;
  options.initialization = Initialization::normal;
  return options;
}

// With windows in blocks, so that they are tried as well.
TransformerOptions lipsformer() {
  TransformerOptions options = test::small_transformer();
  options.residual = ResidualKind::plain;
  options.learned_alpha = LearnedAlpha::vector;
  options.norm = NormLayer::center_norm;
  options.norm_after = true;
  options.qk_norm = options.value_norm = true;
  options.qk_norm_epsilon = 0.1;
  options.softmax_scale = 3.0;
  options.rope_half_truncated = true;
  options.attention_window = 4;
  options.window_block = 2;
  options.long_window_layers = {1};
  options.initialization = Initialization::xavier_spectral;
  return options;
}

TEST(TransformerModel, GradientsAreThoseOfFiniteDifferences) {
  TransformerOptions extras = test::small_transformer();
  extras.position_bias = extras.logit_bias = extras.learnable_scales = true;
  extras.norm = NormLayer::rms_norm;
  for (const TransformerOptions& options : {test::small_transformer(), extras, nanogpt(), lipsformer()}) {
    const auto model = make_model(options, 1, at::kDouble);
    randomize_(*model, 0.3);
    std::vector<at::Tensor> tensors;
    for (const Param& param : model->params()) {
      if (!param.name.ends_with("k_proj.bias"))
        tensors.push_back(param.tensor);  // moves all logits of a row alike
    }
    Pass pass{.dtype = at::kDouble};
    test::expect_gradients([&] { return model->forward(some_tokens(), pass); }, tensors);
  }
}

TEST(TransformerModel, HasHuggingFacesNamesInTheOrderOfTheSignal) {
  const auto model = make_model(test::small_transformer(), 1);
  std::vector<std::string> names;
  for (const Param& param : model->params()) names.push_back(param.name);
  ASSERT_EQ(names.size(), 14U);
  EXPECT_EQ(names[0], "model.embed_tokens.weight");
  EXPECT_EQ(names[1], "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(names[4], "model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(names[5], "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(names[13], "lm_head.weight");
  EXPECT_EQ(model->params()[0].attention_residuals_after, 2);
  EXPECT_EQ(model->params()[1].attention_residuals_after, 1);
  EXPECT_EQ(model->params()[1].mlp_residuals_after, 2);
  EXPECT_EQ(model->params()[5].mlp_residuals_after, 1);
  EXPECT_EQ(model->params()[13].mlp_residuals_after, 0);
}

// The whole network as a function of the embedded sequence: we move the rows that its tokens read.
TEST(TransformerModel, StretchStaysBelowTheBound) {
  TransformerOptions biased = test::small_transformer();
  biased.position_bias = biased.logit_bias = true;
  biased.softmax_scale = 3.0;
  TransformerOptions gpt = nanogpt();
  gpt.tie_embeddings = false;
  for (const TransformerOptions& options : {test::small_transformer(), biased, gpt, lipsformer()}) {
    const auto model = make_model(options, 1);
    randomize_(*model, 0.3);
    const auto norms = measured_norms();
    Walk walk(*norms);
    const Bound bound = model->bound(1.0, walk);
    EXPECT_EQ(walk.layers.size(), 6U);
    const at::Tensor tokens =
        at::arange(6, at::kLong).view({1, 6});  // so the first six rows are the embedded sequence
    const Param& table = model->params()[0];
    Pass pass;
    double most = 0.0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const at::NoGradGuard no_gradients;
      const auto logits = [&](const at::Tensor& rows) {
        table.tensor.narrow(0, 0, 6).copy_(rows);
        return model->forward(tokens, pass);
      };
      at::Tensor rows = test::normal({6, 16}, seed);
      rows = rows.div(rows.square().mean(1, true).sqrt()).mul(0.99);
      const at::Tensor change = test::normal({6, 16}, seed + 1000).mul(1e-3);
      most = std::max(
          most, test::largest_rms(logits(rows.add(change)).sub(logits(rows))) / test::largest_rms(change));
    }
    EXPECT_LE(most, bound.lipschitz.to_double());
    EXPECT_GT(most, 0.0);
  }
}

TEST(TransformerModel, LeavesPaddedRowsOutOfLogitsAndBound) {
  for (const bool tied : {false, true}) {
    TransformerOptions options = test::small_transformer();
    options.tie_embeddings = tied;
    options.real_vocab_size = options.vocab_size - 3;
    const auto model = make_model(options, 1);
    const at::NoGradGuard no_gradients;
    uint64_t seed = 1;
    for (const Param& param : model->params())
      param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(0.3));
    const auto bound = [&] {
      const auto norms = measured_norms();
      Walk walk(*norms);
      model->bound(1.0, walk);
      return walk;
    };
    const Walk before = bound();
    Pass pass;
    EXPECT_EQ(model->forward(at::zeros({1, 4}, at::kLong), pass).size(2), options.real_vocab_size);
    const Param& head = tied ? model->params().front() : model->params().back();
    head.tensor.narrow(0, options.real_vocab_size, 3).mul_(100.0);
    EXPECT_EQ(bound().layers.back().bound.lipschitz, before.layers.back().bound.lipschitz);
    EXPECT_EQ(bound().largest_logit, before.largest_logit);
  }
}

TEST(TransformerModel, RecordsActivations) {
  const auto model = make_model(test::small_transformer(), 1);
  ActivationStatistics statistics;
  Pass pass{.statistics = &statistics};
  model->forward(some_tokens(), pass);
  ASSERT_EQ(statistics.layers.size(), 6U);
  EXPECT_NEAR(statistics.layers.at("model.embed_tokens").largest_rms, 1.0, 1e-6);
  EXPECT_GT(statistics.layers.at("model.embed_tokens").largest_entry, 1.0);
  EXPECT_NEAR(statistics.layers.at("model.layers.0.mlp").largest_rms, 0.75 * 0.75,
              1e-6);  // out-projections start at zero
}

TEST(TransformerModel, RunsInBfloat16CloseToFloat32) {
  const auto model = make_model(test::small_transformer(), 1);
  randomize_(*model, 0.3);
  Pass exact;
  Pass rough{.dtype = at::kBFloat16};
  const at::Tensor a = model->forward(some_tokens(), exact);
  const at::Tensor b = model->forward(some_tokens(), rough).to(at::kFloat);
  EXPECT_LT(a.sub(b).abs().max().item<double>(), 0.05 * a.abs().max().item<double>());
}

// Query heads that share keys and values are a model whose weights of keys and values repeat a head's rows, whole or in pieces.
TEST(Transformer, WithGroupedQueriesHasTheLogitsOfOneWithRepeatedRows) {
  const at::NoGradGuard no_gradients;
  TransformerOptions options = test::small_transformer();
  options.bias = true;
  const auto ordinary = make_model(options, 1, at::kDouble);
  options.num_key_value_heads = 2;
  const auto grouped = make_model(options, 1, at::kDouble);
  randomize_(*grouped, 0.4);
  for (size_t i = 0; i < grouped->params().size(); ++i) {
    const at::Tensor from = grouped->params()[i].tensor, to = ordinary->params()[i].tensor;
    if (from.sizes() == to.sizes()) {
      to.copy_(from);
      continue;
    }
    for (int64_t h = 0; h < 4; ++h) to.narrow(0, 4 * h, 4).copy_(from.narrow(0, 4 * (h / 2), 4));
  }
  const at::Tensor tokens = at::tensor({3, 1, 4, 1, 5, 9, 2, 6}, at::kLong).view({1, 8});
  Pass whole{.dtype = at::kDouble};
  const at::Tensor logits = ordinary->forward(tokens, whole);
  EXPECT_LT(grouped->forward(tokens, whole).sub(logits).abs().max().item<double>(), 1e-12);
  KeyValueCache cache;
  Pass pass{.dtype = at::kDouble, .cache = &cache};
  std::vector<at::Tensor> parts;
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 5}, {5, 1}, {6, 2}})
    parts.push_back(grouped->forward(tokens.narrow(1, first, count), pass));
  EXPECT_LT(at::cat(parts, 1).sub(logits).abs().max().item<double>(), 1e-12);
}

// Rotary positions count from anywhere; blocks of windows count from the first token, so that documents begin with a block here.
TEST(Transformer, ReadsDocumentsSideBySideAsItReadsEachAlone) {
  for (const bool windows : {false, true}) {
    TransformerOptions options = test::small_transformer();
    options.max_position_embeddings = 12;
    options.document_token = 7;
    options.rope_half_truncated = windows;
    options.attention_window = windows ? 4 : 0;
    options.window_block = windows ? 2 : 1;
    if (windows) options.long_window_layers = {1};
    const auto model = make_model(options, 1, at::kDouble);
    randomize_(*model, 0.5);
    const at::Tensor packed = at::tensor({7, 1, 2, 3, 7, 4, 5, 6, 1, 2, 3, 0}, at::kLong).view({1, 12});
    const auto logits = [&](const at::Tensor& tokens) {
      Pass pass{.dtype = at::kDouble};
      return model->forward(tokens, pass);
    };
    const at::Tensor apart = at::cat({logits(packed.narrow(1, 0, 4)), logits(packed.narrow(1, 4, 8))}, 1);
    EXPECT_TRUE(logits(packed).allclose(apart, 1e-11, 1e-11));
    options.document_token = -1;
    const auto together = make_model_from(
        [&, next = model->params().begin()](const std::string&, at::IntArrayRef) mutable {
          return (next++)->tensor.detach();
        },
        options);
    Pass pass{.dtype = at::kDouble};
    EXPECT_FALSE(together->forward(packed, pass).allclose(apart, 1e-3, 1e-3));
  }
}

TEST(Transformer, ReadsATextInPiecesAsItReadsItWhole) {
  for (const PositionKind positions : all_values<PositionKind>()) {
    TransformerOptions options = positions == PositionKind::rope ? lipsformer() : test::small_transformer();
    options.positions = positions;
    options.position_bias = positions != PositionKind::learned;
    options.position_bias_offsets = 3;
    const auto model = test::random_model(options);
    const at::Tensor tokens = at::tensor({3, 1, 4, 1, 5, 9, 2, 6}, at::kLong).view({1, 8});
    Pass whole;
    const at::Tensor logits = model->forward(tokens, whole);
    KeyValueCache cache;
    Pass pass{.cache = &cache};
    std::vector<at::Tensor> parts;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 1}, {4, 1}, {5, 3}})
      parts.push_back(model->forward(tokens.narrow(1, first, count), pass));
    EXPECT_EQ(cache.length, 8);
    EXPECT_TRUE(at::cat(parts, 1).allclose(logits, 1e-4, 1e-5)) << word(positions);
  }
}

}  // namespace
}  // namespace bridle
