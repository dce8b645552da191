#include "bridle/error.h"
#include "bridle/nn.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

TEST(ModelChoice, FillsInWhatFollows) {
  TransformerOptions options = test::small_transformer();
  options = resolved(options);
  EXPECT_EQ(options.intermediate_size, 64);
  EXPECT_EQ(options.attention_alpha, 0.25);
  EXPECT_EQ(options.mlp_alpha, 0.25);
  EXPECT_EQ(options.position_bias_offsets, 8);
}

TEST(ModelChoice, WithoutASeedHasZeroWeights) {
  const auto model =
      make_model({.vocab_size = 5, .hidden_size = 8, .num_attention_heads = 2, .max_position_embeddings = 4},
                 std::nullopt);
  for (const Param& param : model->params())
    if (is_matrix(param.role) || is_table(param.role)) {
      EXPECT_EQ(param.tensor.abs().max().item<double>(), 0.0) << param.name;
    }
  EXPECT_EQ(model->options().real_vocab_size, 5);
}

TEST(ModelChoice, RefusesWhatCannotBe) {
  const auto refused = [](const std::function<void(TransformerOptions&)>& change, const char* part) {
    TransformerOptions options = test::small_transformer();
    change(options);
    EXPECT_ERROR(make_model(options, 0), InputError, part);
  };
  refused([](TransformerOptions& o) { o.kind = "cnn"; }, "kind = 'cnn'; it is one of transformer, mlp");
  refused([](TransformerOptions& o) { o.num_attention_heads = 3; },
          "hidden_size = 16 is not a multiple of num_attention_heads = 3");
  refused([](TransformerOptions& o) { o.num_attention_heads = 16; }, "must be even");
  refused([](TransformerOptions& o) { o.vocab_size = 0; }, "vocab_size = 0");
  refused([](TransformerOptions& o) { o.num_hidden_layers = 0; }, "num_hidden_layers = 0");
  refused([](TransformerOptions& o) { o.norm = NormLayer::batch_norm; }, "norm = 'batch_norm'");
  refused([](TransformerOptions& o) { o.dropout = 1.0; }, "dropout = 1");
  refused([](TransformerOptions& o) { o.activation_divisor = 0.0; }, "activation_divisor = 0");
  refused([](TransformerOptions& o) { o.softmax_scale = std::numeric_limits<double>::infinity(); },
          "must be finite");
  refused([](TransformerOptions& o) { o.activation = ActivationKind::maxmin; }, "is for kind = 'mlp'");
  refused([](TransformerOptions& o) { o.kind = "mlp"; }, "layer_sizes has 0 entries");
  refused(
      [](TransformerOptions& o) {
        o.kind = "mlp";
        o.layer_sizes = {3, 5, 2};
        o.activation = ActivationKind::maxmin;
      },
      "size 5; maxmin takes pairs");
}

}  // namespace
}  // namespace bridle
