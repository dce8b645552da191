#include "export_support.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "base/words.h"
#include "support.h"

namespace bridle::test {

std::vector<NamedModel> exported_mlps() {
  std::vector<NamedModel> all;
  for (const ActivationKind kind : all_values<ActivationKind>())
    for (const bool bias : {false, true})
      if (!bias || kind != ActivationKind::relu_squared)
        all.push_back(
            {fmt::format("mlp_{}{}", word(kind), bias ? "_bias" : ""),
             MlpOptions{
                 .layer_sizes = {12, 16, 8, 5}, .activation = kind, .bias = bias, .final_scale = 1.5}});
  all.push_back({"mlp_one_layer", MlpOptions{.layer_sizes = {12, 3}}});
  return all;
}

std::vector<NamedModel> exported_transformers() {
  std::vector<NamedModel> all;
  const auto add = [&all](const std::string& name, auto change) {
    TransformerOptions options{.vocab_size = 33,
                               .real_vocab_size = 31,
                               .hidden_size = 32,
                               .num_hidden_layers = 2,
                               .num_attention_heads = 4,
                               .max_position_embeddings = 24,
                               .softmax_scale = 3.0,
                               .final_scale = 2.0};
    change(options);
    all.push_back({name, options});
  };
  using O = TransformerOptions;
  add("plain", [](O&) {});
  for (const ActivationKind kind : all_values<ActivationKind>())
    add(fmt::format("activation_{}", word(kind)), [&](O& o) { o.activation = kind; });
  for (const NormLayer norm : all_values<NormLayer>())
    add(fmt::format("norm_{}", word(norm)), [&](O& o) {
      o.norm = norm;
      o.bias = true;
    });
  add("norm_after", [](O& o) {
    o.norm = NormLayer::rms_norm;
    o.norm_after = true;
    o.norm_gain = false;
  });
  for (const PositionKind positions : all_values<PositionKind>())
    add(fmt::format("positions_{}", word(positions)), [&](O& o) { o.positions = positions; });
  for (const LearnedAlpha alpha : all_values<LearnedAlpha>())
    for (const ResidualKind residual : {ResidualKind::convex, ResidualKind::plain})
      add(fmt::format("residual_{}_{}", word(residual), word(alpha)), [&](O& o) {
        o.residual = residual;
        o.learned_alpha = alpha;
        o.mlp_alpha = 0.7;
      });
  add("grouped", [](O& o) { o.num_key_value_heads = 2; });
  add("normalised", [](O& o) {
    o.qk_norm = o.value_norm = true;
    o.qk_norm_epsilon = 0.01;
    o.rope_half_truncated = true;
    o.rope_theta = 1024.0;
  });
  add("windows", [](O& o) {
    o.attention_window = 8;
    o.window_block = 4;
    o.long_window_layers = {1};
  });
  add("documents", [](O& o) {
    o.document_token = 2;
    o.position_bias = true;
    o.position_bias_offsets = 7;
  });
  add("scales", [](O& o) {
    o.learnable_scales = o.tie_embeddings = o.logit_bias = true;
    o.logit_soft_cap = 2.0;
  });
  add("gated", [](O& o) {
    o.gated = o.bias = true;
    o.activation = ActivationKind::silu;
    o.norm = NormLayer::rms_norm;
    o.residual = ResidualKind::plain;
  });
  for (const int64_t document : {-1, 2})
    for (const int64_t window : {0, 6})
      add(fmt::format("quadrature_{}_{}", document < 0 ? "text" : "documents", window), [&](O& o) {
        o.mixing = MixingKind::quadrature;
        o.memory_channels = window == 0 ? 32 : 64;
        o.positions = PositionKind::none;
        o.activation = ActivationKind::abs;
        o.activation_divisor = 1.0;
        o.learned_alpha = LearnedAlpha::scalar;
        o.logit_bias = true;
        o.attention_window = window;
        o.document_token = document;
      });
  return all;
}

std::vector<NamedModel> torch_only_transformers() {
  TransformerOptions content{.vocab_size = 11,
                             .hidden_size = 32,
                             .num_hidden_layers = 2,
                             .mixing = MixingKind::quadrature,
                             .memory_channels = 32,
                             .content_heads = 2,
                             .content_size = 64,
                             .num_attention_heads = 3,
                             .max_position_embeddings = 12,
                             .positions = PositionKind::none,
                             .activation = ActivationKind::abs,
                             .attention_window = 5,
                             .document_token = 2};
  TransformerOptions skip = content;
  skip.content_heads = 0;
  skip.residual = ResidualKind::quadrature;
  skip.bias = true;
  skip.intermediate_size = 40;
  return {{"content_heads", resolved(ModelOptions(content))},
          {"quadrature_skip", resolved(ModelOptions(skip))}};
}

std::unique_ptr<Model> trained_like(const ModelOptions& options, uint64_t seed) {
  auto model = make_model(options, seed);
  const at::NoGradGuard no_gradients;
  uint64_t draw = 100 * seed;
  for (const Param& param : model->params()) {
    const double deviation =
        is_matrix(param.role) ? 1.0 / std::sqrt(static_cast<double>(param.tensor.size(1))) : 0.7;
    param.tensor.copy_(normal(param.tensor.sizes(), draw++).mul(deviation));
  }
  return model;
}

}  // namespace bridle::test
