#include "nn/model_options.h"

namespace bridle {

Settings model_settings(ModelOptions& o, const std::string& prefix) {
  Settings list{
      {"kind", &o.kind, "transformer or mlp"},
      {"hidden_sizes", &o.hidden_sizes, "mlp: sizes of the hidden layers"},
      {"layer_sizes", &o.layer_sizes, "mlp: all sizes; [] takes input and classes from the data"},
      {"mlp_activation", &o.mlp_activation,
       "mlp: relu, or maxmin (the larger, then the smaller of each pair)"},
      {"input_bound", &o.input_bound, "mlp: RMS of every input; the data decides"},
      {"vocab_size", &o.vocab_size, "rows of embedding and head; 0: from the data"},
      {"real_vocab_size", &o.real_vocab_size,
       "the first so many rows are tokens, the others padding; 0: all"},
      {"hidden_size", &o.hidden_size, "width d"},
      {"num_hidden_layers", &o.num_hidden_layers, "blocks"},
      {"num_attention_heads", &o.num_attention_heads, "heads"},
      {"intermediate_size", &o.intermediate_size, "width of the feed-forward layer; 0: 4·hidden_size"},
      {"max_position_embeddings", &o.max_position_embeddings,
       "longest sequence; 0: the data's sequence_length"},
      {"positions", &o.positions, "rope, learned or none"},
      {"rope_theta", &o.rope_theta, "base of the rotary frequencies"},
      {"hidden_act", &o.hidden_act, "gelu (erf), gelu_tanh or relu"},
      {"activation_divisor", &o.activation_divisor, "the activation is divided by this"},
      {"softmax_scale", &o.softmax_scale, "logits are softmax_scale·q·k/d_h"},
      {"attention_output_scale", &o.attention_output_scale, "multiplies what attention gives"},
      {"residual", &o.residual, "convex: (1 − α)x + αf(x); plain: x + f(x)"},
      {"attention_alpha", &o.attention_alpha, "α of attention; 0: 1/(2·num_hidden_layers)"},
      {"mlp_alpha", &o.mlp_alpha, "α of the feed-forward layer; 0: the same"},
      {"position_bias", &o.position_bias, "learned logit bias per head and offset"},
      {"position_bias_offsets", &o.position_bias_offsets, "the last serves all that are farther; 0: all"},
      {"position_bias_start", &o.position_bias_start,
       "head h of block b begins with this logit for the token h·dilation^b places back"},
      {"position_bias_dilation", &o.position_bias_dilation, "of position_bias_start"},
      {"logit_bias", &o.logit_bias, "learned bias of the logits"},
      {"norm", &o.norm, "before each branch: none, tanh, rms_norm or layer_norm"},
      {"norm_epsilon", &o.norm_epsilon, "ε of the norms"},
      {"learnable_scales", &o.learnable_scales, "attention output scale and final scale are learned"},
      {"bias", &o.bias, "linear layers and LayerNorm have a bias"},
      {"tie_embeddings", &o.tie_embeddings, "the head is the embedding"},
      {"dropout", &o.dropout, "share of activations dropped in training"},
      {"initialization", &o.initialization, "orthogonal (the paper's) or normal (nanoGPT's)"},
      {"final_scale", &o.final_scale, "multiplies the logits"},
  };
  for (Setting& setting : list) setting.key = prefix + setting.key;
  return list;
}

}  // namespace bridle
