#include "nn/model_options.h"

#include <algorithm>

namespace bridle {

const char* word(ModelKind kind) {
  switch (kind) {
    case ModelKind::transformer:
      return "transformer";
    case ModelKind::mlp:
      return "mlp";
  }
  return nullptr;
}

const char* word(MixingKind kind) {
  switch (kind) {
    case MixingKind::attention:
      return "attention";
    case MixingKind::quadrature:
      return "quadrature";
  }
  return nullptr;
}

const char* word(ResidualKind kind) {
  switch (kind) {
    case ResidualKind::convex:
      return "convex";
    case ResidualKind::plain:
      return "plain";
  }
  return nullptr;
}

const char* word(PositionKind kind) {
  switch (kind) {
    case PositionKind::rope:
      return "rope";
    case PositionKind::learned:
      return "learned";
    case PositionKind::none:
      return "none";
  }
  return nullptr;
}

const char* word(Initialization initialization) {
  switch (initialization) {
    case Initialization::orthogonal:
      return "orthogonal";
    case Initialization::normal:
      return "normal";
  }
  return nullptr;
}

namespace {

Setting initialization_setting(Initialization& place) {
  return {"initialization", choice(&place), "of weights: the paper's is orthogonal, nanoGPT's normal"};
}

Setting final_scale_setting(double& place) { return {"final_scale", &place, "multiplies the logits"}; }

Settings mlp_settings(MlpOptions& o) {
  return {{"layer_sizes", &o.layer_sizes, "mlp: all sizes; [] takes input and classes from the data"},
          {"mlp_activation", choice(&o.activation), "mlp: between the layers, as hidden_act"},
          {"input_bound", &o.input_bound, "mlp: RMS of every input; the data decides"},
          initialization_setting(o.initialization),
          final_scale_setting(o.final_scale)};
}

Settings transformer_settings(TransformerOptions& o) {
  return {
      {"vocab_size", &o.vocab_size, "rows of embedding and head; 0: from the data"},
      {"real_vocab_size", &o.real_vocab_size,
       "the first so many rows are tokens, the others padding; 0: all"},
      {"hidden_size", &o.hidden_size, "width d"},
      {"num_hidden_layers", &o.num_hidden_layers, "blocks"},
      {"mixing", choice(&o.mixing), "how a token reads others"},
      {"memory_channels", &o.memory_channels, "quadrature: channels of decaying maxima; 0: none"},
      {"num_attention_heads", &o.num_attention_heads, "heads"},
      {"num_key_value_heads", &o.num_key_value_heads,
       "heads of keys and values, each serving as many query heads; 0: num_attention_heads"},
      {"intermediate_size", &o.intermediate_size, "width of the feed-forward layer; 0: 4·hidden_size"},
      {"max_position_embeddings", &o.max_position_embeddings,
       "longest sequence; 0: the data's sequence_length"},
      {"positions", choice(&o.positions), "of tokens"},
      {"rope_theta", &o.rope_theta, "base of the rotary frequencies"},
      {"hidden_act", choice(&o.activation), "activation of the feed-forward layer"},
      {"activation_divisor", &o.activation_divisor, "the activation is divided by this"},
      {"softmax_scale", &o.softmax_scale, "logits are softmax_scale·q·k/d_h"},
      {"attention_output_scale", &o.attention_output_scale, "multiplies what attention gives"},
      {"residual", choice(&o.residual), "convex: (1 − α)x + αf(x); plain: x + f(x)"},
      {"attention_alpha", &o.attention_alpha, "α of attention; 0: 1/(2·num_hidden_layers)"},
      {"mlp_alpha", &o.mlp_alpha, "α of the feed-forward layer; 0: the same"},
      {"learned_alpha", &o.learned_alpha, "both α are parameters of each block, which begin with these"},
      {"position_bias", &o.position_bias, "learned logit bias per head and offset"},
      {"position_bias_offsets", &o.position_bias_offsets, "the last serves all that are farther; 0: all"},
      {"position_bias_start", &o.position_bias_start,
       "head h of block b begins with this logit for the token h·dilation^b places back"},
      {"position_bias_dilation", &o.position_bias_dilation, "of position_bias_start"},
      {"qk_norm", &o.qk_norm, "queries and keys are divided by their RMS, head by head"},
      {"qk_norm_epsilon", &o.qk_norm_epsilon, "ε of that"},
      {"attention_window", &o.attention_window,
       "tokens that a token sees, itself included; 0: all before it"},
      {"document_token", &o.document_token,
       "the token that begins a document, outside of which nothing is seen; -1: none"},
      {"logit_bias", &o.logit_bias, "learned bias of the logits"},
      {"norm", choice(&o.norm), "before each branch and the head"},
      {"norm_epsilon", &o.norm_epsilon, "ε of the norms"},
      {"norm_gain", &o.norm_gain, "norms have a learned gain"},
      {"learnable_scales", &o.learnable_scales, "attention output scale and final scale are learned"},
      {"bias", &o.bias, "linear layers and LayerNorm have a bias"},
      {"tie_embeddings", &o.tie_embeddings, "the head is the embedding"},
      {"dropout", &o.dropout, "share of activations dropped in training"},
      {"drop_path", &o.drop_path, "share of branches dropped in training, sequence by sequence"},
      {"logit_soft_cap", &o.logit_soft_cap, "logits z become c·tanh(z/c); 0: they stay as they are"},
      initialization_setting(o.initialization),
      final_scale_setting(o.final_scale),
  };
}

}  // namespace

Settings model_settings(ModelOptions& options) {
  struct Keys {
    Settings operator()(MlpOptions& o) const { return mlp_settings(o); }
    Settings operator()(TransformerOptions& o) const { return transformer_settings(o); }
  };
  return std::visit(Keys{}, options);
}

Settings recipe_settings(ModelRecipe& recipe, const std::string& prefix) {
  Settings list{{"kind", choice(&recipe.kind), "of model"},
                {"hidden_sizes", &recipe.mlp.hidden_sizes, "mlp: sizes of the hidden layers"}};
  const Settings mlp = mlp_settings(recipe.mlp);
  Settings transformer = transformer_settings(recipe.transformer);
  for (const Setting& own : mlp) {
    const auto shared = std::find_if(transformer.begin(), transformer.end(),
                                     [&](const Setting& other) { return other.key == own.key; });
    if (shared == transformer.end()) {
      list.push_back(own);
      continue;
    }
    shared->copies.push_back(own.place);
    if (recipe.kind == ModelKind::mlp)
      std::swap(shared->place, shared->copies.back());  // what counts is shown
  }
  list.insert(list.end(), transformer.begin(), transformer.end());
  for (Setting& setting : list) setting.key = prefix + setting.key;
  return list;
}

}  // namespace bridle
