#include "nn/transformer_options.h"

#include <fmt/format.h>

#include "nn/activation.h"
#include "nn/model_options.h"

namespace bridle {

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
    case ResidualKind::quadrature:
      return "quadrature";
  }
  return nullptr;
}

const char* word(LearnedAlpha alpha) {
  switch (alpha) {
    case LearnedAlpha::none:
      return "none";
    case LearnedAlpha::scalar:
      return "scalar";
    case LearnedAlpha::vector:
      return "vector";
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

Settings transformer_settings(TransformerOptions& o) {
  return {
      {"vocab_size", &o.vocab_size, "rows of embedding and head; 0: from the data", kCount},
      {"real_vocab_size", &o.real_vocab_size,
       "the first so many rows are tokens, the others padding; 0: all"},
      {"hidden_size", &o.hidden_size, "width d", kCount},
      {"num_hidden_layers", &o.num_hidden_layers, "blocks", kCount},
      {"mixing", choice(&o.mixing), "how a token reads others"},
      {"memory_channels", &o.memory_channels, "quadrature: channels of decaying maxima; 0: none",
       kCountOrNone},
      {"content_heads", &o.content_heads,
       "quadrature: heads that read whole tokens by what they are, beside those by position", kCountOrNone},
      {"content_size", &o.content_size, "quadrature: of their queries and keys; 0: hidden_size",
       kCountOrNone},
      {"num_attention_heads", &o.num_attention_heads, "heads", kCount},
      {"num_key_value_heads", &o.num_key_value_heads,
       "heads of keys and values, each serving as many query heads; 0: num_attention_heads", kCount},
      {"intermediate_size", &o.intermediate_size, "width of the feed-forward layer; 0: 4·hidden_size",
       kCount},
      {"max_position_embeddings", &o.max_position_embeddings,
       "longest sequence; 0: the data's sequence_length", kCount},
      {"positions", choice(&o.positions), "of tokens"},
      {"rope_theta", &o.rope_theta, "base of the rotary frequencies", kPositive},
      {"rope_half_truncated", &o.rope_half_truncated,
       "rope: half of the pairs are not rotated, the others' frequencies go down to 1/rope_theta"},
      {"hidden_act", choice(&o.activation), "activation of the feed-forward layer"},
      {"activation_divisor", &o.activation_divisor, "the activation is divided by this", kPositive},
      {"gated", &o.gated,
       "the feed-forward layer is gated: W_down(f(W_gate x)/divisor ∘ W_up x), SwiGLU with hidden_act = "
       "silu"},
      {"softmax_scale", &o.softmax_scale, "logits are softmax_scale·q·k/d_h", kFinite},
      {"attention_output_scale", &o.attention_output_scale, "multiplies what attention gives", kFinite},
      {"residual", choice(&o.residual),
       "convex: (1 − α)x + αf(x); plain: x + f(x), or x + αf(x) with a learned α; quadrature: the skip is a "
       "part of "
       "the last matrix of the feed-forward layer"},
      {"attention_alpha", &o.attention_alpha, "α of attention; 0: 1/(2·num_hidden_layers)", kFinite},
      {"mlp_alpha", &o.mlp_alpha, "α of the feed-forward layer; 0: the same", kFinite},
      {"learned_alpha", choice(&o.learned_alpha, "none", "scalar"),
       "whether both α are parameters of each block, which begin with these: one number, or one per entry"},
      {"position_bias", &o.position_bias, "learned logit bias per head and offset"},
      {"position_bias_offsets", &o.position_bias_offsets, "the last serves all that are farther; 0: all",
       kCount},
      {"position_bias_start", &o.position_bias_start,
       "head h of block b begins with this logit for the token h·dilation^b places back", kFinite},
      {"position_bias_dilation", &o.position_bias_dilation, "of position_bias_start", kCount},
      {"qk_norm", &o.qk_norm, "queries and keys are divided by their RMS, head by head"},
      {"qk_norm_epsilon", &o.qk_norm_epsilon, "ε of that", kNotNegative},
      {"value_norm", &o.value_norm, "values are divided by their RMS too, with the same ε"},
      {"attention_window", &o.attention_window, "tokens that a token sees, itself included; 0: all before it",
       kCountOrNone},
      {"window_block", &o.window_block,
       "windows are so many blocks of tokens, the last of them the token's own", kCount},
      {"long_window_layers", &o.long_window_layers,
       "layers, from 0, with the whole window; the others have half as many blocks; []: all have it"},
      {"document_token", &o.document_token,
       "the token that begins a document, outside of which nothing is seen; -1: none"},
      {"logit_bias", &o.logit_bias, "learned bias of the logits"},
      {"norm", choice(&o.norm), "before each branch and the head"},
      {"norm_after", &o.norm_after, "norms stand after each residual instead"},
      {"norm_epsilon", &o.norm_epsilon, "ε of the norms", kNotNegative},
      {"norm_gain", &o.norm_gain, "norms have a learned gain"},
      {"learnable_scales", &o.learnable_scales, "attention output scale and final scale are learned"},
      {"bias", &o.bias, "linear layers and LayerNorm have a bias"},
      {"tie_embeddings", &o.tie_embeddings, "the head is the embedding"},
      {"dropout", &o.dropout, "share of activations dropped in training", kShare},
      {"branch_dropout", &o.branch_dropout,
       "share of what branches give dropped in training, entry by entry; 0: dropout", kShare},
      {"drop_path", &o.drop_path, "share of branches dropped in training, sequence by sequence", kShare},
      {"logit_soft_cap", &o.logit_soft_cap, "logits z become c·tanh(z/c); 0: they stay as they are",
       kNotNegative},
      initialization_setting(o.initialization),
      final_scale_setting(o.final_scale),
  };
}

namespace {

// What no range by itself can say.
void check_sizes(const TransformerOptions& o) {
  require(o.real_vocab_size >= 1 && o.real_vocab_size <= o.vocab_size,
          fmt::format("real_vocab_size must be from 1 to vocab_size = {}, got {}", o.vocab_size,
                      o.real_vocab_size));
  require(o.mixing == MixingKind::quadrature || o.hidden_size % o.num_attention_heads == 0,
          fmt::format("hidden_size must be a multiple of num_attention_heads = {}, got {}",
                      o.num_attention_heads, o.hidden_size));
  require(o.num_attention_heads % o.num_key_value_heads == 0,
          fmt::format("num_attention_heads must be a multiple of num_key_value_heads = {}, got {}",
                      o.num_key_value_heads, o.num_attention_heads));
  require(
      o.positions != PositionKind::rope || o.head_size() % 2 == 0,
      fmt::format("the size of a head must be even for rope, which rotates pairs, got {}", o.head_size()));
  require(o.activation != ActivationKind::maxmin || o.intermediate_size % 2 == 0,
          fmt::format("intermediate_size must be even for maxmin, which sorts pairs, got {}",
                      o.intermediate_size));
  require(o.document_token >= -1 && o.document_token < o.vocab_size,
          fmt::format("document_token must be from -1 to vocab_size - 1 = {}, got {}", o.vocab_size - 1,
                      o.document_token));
  require(o.norm != NormLayer::center_norm || o.hidden_size >= 2,
          "hidden_size must be at least 2 for center_norm, got 1");
  require(
      !o.rope_half_truncated || (o.positions == PositionKind::rope && o.head_size() % 4 == 0),
      fmt::format("rope_half_truncated needs positions = rope and heads of a multiple of 4, got {} and {}",
                  word(o.positions), o.head_size()));
  require(!o.norm_after || o.norm != NormLayer::none, "norm_after needs a norm, got norm = none");
}

void check_windows(const TransformerOptions& o) {
  require(o.attention_window % o.window_block == 0,
          fmt::format("attention_window must be a multiple of window_block = {}, got {}", o.window_block,
                      o.attention_window));
  require(o.attention_window > 0 || (o.window_block == 1 && o.long_window_layers.empty()),
          "window_block and long_window_layers need an attention_window, got 0");
  for (const int64_t layer : o.long_window_layers)
    require(layer >= 0 && layer < o.num_hidden_layers,
            fmt::format("long_window_layers must be from 0 to num_hidden_layers - 1 = {}, got {}",
                        o.num_hidden_layers - 1, layer));
}

void check_quadrature(const TransformerOptions& o) {
  require(o.residual != ResidualKind::quadrature ||
              (o.mixing == MixingKind::quadrature && o.learned_alpha == LearnedAlpha::none && !o.gated),
          "residual = quadrature goes with mixing = quadrature, learned_alpha = none (its coefficients are "
          "learned) "
          "and gated = false");
  if (o.mixing != MixingKind::quadrature) {
    require(o.memory_channels == 0,
            fmt::format("memory_channels must be 0 without mixing = quadrature, got {}", o.memory_channels));
    require(o.content_heads == 0,
            fmt::format("content_heads must be 0 without mixing = quadrature, got {}", o.content_heads));
    return;
  }
  require(o.hidden_size % 32 == 0 && o.memory_channels % 32 == 0 && o.content_size % 32 == 0,
          fmt::format("hidden_size, memory_channels and content_size must be multiples of 32 for mixing = "
                      "quadrature, got {}, {} and {}",
                      o.hidden_size, o.memory_channels, o.content_size));
  require(o.norm == NormLayer::none && o.positions == PositionKind::none && !o.qk_norm && !o.value_norm &&
              !o.learnable_scales && o.num_key_value_heads == o.num_attention_heads,
          "mixing = quadrature has no rope and no norms: it goes with norm = none, positions = "
          "none, qk_norm = false, value_norm = false, learnable_scales = false and no num_key_value_heads");
}

void fill_in_(TransformerOptions& o) {
  const double alpha = o.num_hidden_layers < 1 ? 0.0 : 1.0 / (2.0 * static_cast<double>(o.num_hidden_layers));
  require(o.num_hidden_layers <= kLargestSize && o.hidden_size <= kLargestSize,
          fmt::format("num_hidden_layers and hidden_size must be at most {}, got {} and {}", kLargestSize,
                      o.num_hidden_layers, o.hidden_size));
  if (o.attention_alpha == 0.0) o.attention_alpha = alpha;
  if (o.mlp_alpha == 0.0) o.mlp_alpha = alpha;
  if (o.num_key_value_heads == 0) o.num_key_value_heads = o.num_attention_heads;
  if (o.intermediate_size == 0) o.intermediate_size = 4 * o.hidden_size;
  if (o.content_size == 0 && o.content_heads > 0) o.content_size = o.hidden_size;
  if (o.real_vocab_size == 0) o.real_vocab_size = o.vocab_size;
  if (o.position_bias_offsets == 0) o.position_bias_offsets = o.max_position_embeddings;
  if (o.branch_dropout == 0.0) o.branch_dropout = o.dropout;
}

}  // namespace

void resolve_(TransformerOptions& o) {
  fill_in_(o);
  check_ranges(transformer_settings(o), "model");
  check_sizes(o);
  check_windows(o);
  check_quadrature(o);
}

// An allow-list over every field: a new one does not compile until someone has said here what the fused pass makes of it.
std::string unfused_key(const TransformerOptions& options) {
  const auto& [vocab_size, real_vocab_size, hidden_size, num_hidden_layers, mixing, memory_channels,
               content_heads, content_size, num_attention_heads, num_key_value_heads, intermediate_size,
               max_position_embeddings, positions, rope_theta, rope_half_truncated, activation,
               activation_divisor, gated, softmax_scale, attention_output_scale, residual, attention_alpha,
               mlp_alpha, learned_alpha, position_bias, position_bias_offsets, position_bias_start,
               position_bias_dilation, qk_norm, qk_norm_epsilon, value_norm, attention_window, window_block,
               long_window_layers, document_token, logit_bias, norm, norm_epsilon, norm_gain, norm_after,
               learnable_scales, bias, tie_embeddings, dropout, branch_dropout, drop_path, logit_soft_cap,
               initialization, final_scale] = options;
  const bool known_positions = positions == PositionKind::rope || positions == PositionKind::learned ||
                               positions == PositionKind::none;
  const bool known_norm = norm == NormLayer::none || norm == NormLayer::tanh || norm == NormLayer::rms_norm ||
                          norm == NormLayer::layer_norm || norm == NormLayer::center_norm;
  const bool known_residual = residual == ResidualKind::convex || residual == ResidualKind::plain ||
                              residual == ResidualKind::quadrature;
  const bool known_alpha = learned_alpha == LearnedAlpha::none || learned_alpha == LearnedAlpha::scalar ||
                           learned_alpha == LearnedAlpha::vector;
  const std::pair<bool, const char*> obstacles[] = {{!is_fused(activation), "hidden_act"},
                                                    {!known_positions, "positions"},
                                                    {!known_residual, "residual"},
                                                    {!known_alpha, "learned_alpha"},
                                                    {!known_norm, "norm"},
                                                    {norm_after, "norm_after"},
                                                    {gated, "gated"}};
  for (const auto& [is_there, what] : obstacles)
    if (is_there) return what;
  return "";
}

}  // namespace bridle
