#include "bridle/error.h"
#include "bridle/nn.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

TEST(ModelChoice, FillsInWhatFollows) {
  const TransformerOptions options = test::filled_in(test::small_transformer());
  EXPECT_EQ(options.intermediate_size, 64);
  EXPECT_EQ(options.attention_alpha, 0.25);
  EXPECT_EQ(options.mlp_alpha, 0.25);
  EXPECT_EQ(options.position_bias_offsets, 8);
  EXPECT_EQ(options.num_key_value_heads, 4);
}

TEST(ModelChoice, WithoutASeedHasZeroWeights) {
  const auto model = make_model(
      TransformerOptions{
          .vocab_size = 5, .hidden_size = 8, .num_attention_heads = 2, .max_position_embeddings = 4},
      std::nullopt);
  for (const Param& param : model->params())
    if (is_matrix(param.role) || is_table(param.role)) {
      EXPECT_EQ(param.tensor.abs().max().item<double>(), 0.0) << param.name;
    }
  EXPECT_EQ(test::transformer_options(*model).real_vocab_size, 5);
}

TEST(ModelChoice, RefusesWhatATransformerCannotBe) {
  const auto refused = [](const std::function<void(TransformerOptions&)>& change, const char* part) {
    TransformerOptions options = test::small_transformer();
    change(options);
    EXPECT_ERROR(make_model(options, 0), InputError, part);
  };
  refused([](TransformerOptions& o) { o.num_attention_heads = 3; },
          "hidden_size must be a multiple of num_attention_heads = 3, got 16");
  refused([](TransformerOptions& o) { o.num_key_value_heads = 3; },
          "num_attention_heads must be a multiple of num_key_value_heads = 3, got 4");
  refused([](TransformerOptions& o) { o.num_key_value_heads = 8; },
          "num_attention_heads must be a multiple of num_key_value_heads = 8, got 4");
  refused([](TransformerOptions& o) { o.num_key_value_heads = -1; },
          "num_key_value_heads must be from 1 to 16777216, got -1");
  refused([](TransformerOptions& o) { o.num_attention_heads = 16; }, "must be even for rope");
  refused([](TransformerOptions& o) { o.vocab_size = 0; }, "vocab_size must be from 1 to 16777216, got 0");
  refused([](TransformerOptions& o) { o.num_hidden_layers = 0; }, "num_hidden_layers must be from 1");
  refused([](TransformerOptions& o) { o.dropout = 1.0; }, "dropout must be at least 0 and below 1, got 1");
  refused([](TransformerOptions& o) { o.activation_divisor = 0.0; },
          "activation_divisor must be positive, got 0");
  refused([](TransformerOptions& o) { o.softmax_scale = std::numeric_limits<double>::infinity(); },
          "must be finite");
  refused(
      [](TransformerOptions& o) {
        o.activation = ActivationKind::maxmin;
        o.intermediate_size = 5;
      },
      "intermediate_size must be even for maxmin, which sorts pairs, got 5");
}

TEST(ModelChoice, RefusesWhatAnMlpCannotBe) {
  EXPECT_ERROR(make_model(MlpOptions{}, 0), InputError, "layer_sizes must have at least 2 entries");
  EXPECT_ERROR(make_model(MlpOptions{.layer_sizes = {3, 0}}, 0), InputError,
               "layer_sizes must be from 1 to 16777216, got 0");
  EXPECT_ERROR(make_model(MlpOptions{.layer_sizes = {3, 2}, .input_bound = 0.0}, 0), InputError,
               "input_bound must be positive, got 0");
  EXPECT_ERROR(make_model(MlpOptions{.layer_sizes = {3, 5, 2}, .activation = ActivationKind::maxmin}, 0),
               InputError, "must be even for maxmin, which sorts pairs, got 5");
}

TEST(AnOutline, AnswersWithoutTakingMemory) {
  TransformerOptions options = test::small_transformer();
  options.real_vocab_size = 7;
  const auto model = outline(options);
  for (const Param& param : model->params()) EXPECT_TRUE(param.tensor.is_meta()) << param.name;
  const auto made = make_model(options, 1);
  ASSERT_EQ(model->params().size(), made->params().size());
  for (size_t i = 0; i < made->params().size(); ++i)
    EXPECT_EQ(model->params()[i].tensor.sizes(), made->params()[i].tensor.sizes());
  EXPECT_EQ(model->shape().input, InputKind::tokens);
  EXPECT_EQ(model->shape().size, 16);
  EXPECT_EQ(model->shape().longest, 8);
  EXPECT_EQ(model->shape().outputs, 7);
  EXPECT_EQ(model->flop(8).forward, made->flop(8).forward);
  EXPECT_EQ(model->why_not_fused({.dtype = at::kBFloat16}), "");
  const auto mlp = outline(MlpOptions{.layer_sizes = {12, 9, 5}});
  EXPECT_EQ(mlp->shape().input, InputKind::vectors);
  EXPECT_EQ(mlp->shape().size, 12);
  EXPECT_EQ(mlp->shape().longest, 1);
  EXPECT_EQ(mlp->shape().outputs, 5);
}

TEST(CertifiedWeights, NameAHeadThatIsTheEmbedding) {
  TransformerOptions options = test::small_transformer();
  options.tie_embeddings = true;
  const auto tied = make_model(options, 1);
  ASSERT_EQ(tied->certified_weights().size(), tied->params().size() + 1);
  EXPECT_EQ(tied->certified_weights().back().name, "lm_head.weight");
  const auto apart = make_model(test::small_transformer(), 1);
  EXPECT_EQ(apart->certified_weights().size(), apart->params().size());
}

}  // namespace
}  // namespace bridle
