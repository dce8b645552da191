// What a model is: its kinds, its choices, its sizes. Recipes and config.json speak of these in words, which are parsed
// once, at the border (nn/model_options.h); everything behind it switches over the enums, exhaustively.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace bridle {

enum class ModelKind { transformer, mlp };
enum class InputKind { tokens, vectors };  // sequences of ids; vectors of numbers, such as pixels
// gelu: by erf; silu: x/(1 + exp(−x)), what SwiGLU's gate has
enum class ActivationKind { gelu, gelu_tanh, relu, maxmin, abs, relu_squared, tanh, silu };
enum class NormLayer { none, tanh, rms_norm, layer_norm, center_norm };
enum class MixingKind { attention, quadrature };  // how a token reads others: nn/attention.h, nn/mixing.h
// (1 − α)x + αf(x);  x + f(x), or x + αf(x) with a learned α;  the skip is a part of the branch's last matrix
enum class ResidualKind { convex, plain, quadrature };
enum class LearnedAlpha {
  none,
  scalar,
  vector
};  // α is fixed; one number per branch; one per entry of a token
enum class PositionKind { rope, learned, none };
enum class Initialization {
  orthogonal,      // the paper's
  normal,          // nanoGPT's
  xavier_spectral  // LipsFormer's: Xavier's normal, divided by its spectral norm
};

// The word of each in recipes and config.json; null for a value past the last, so that a loop can find them all.
const char* word(ModelKind kind);
const char* word(ActivationKind kind);
const char* word(NormLayer layer);
const char* word(MixingKind kind);
const char* word(ResidualKind kind);
const char* word(LearnedAlpha alpha);
const char* word(PositionKind kind);
const char* word(Initialization initialization);

struct MlpOptions {
  static constexpr InputKind kInput = InputKind::vectors;

  std::vector<int64_t> hidden_sizes = {256, 256};
  std::vector<int64_t> layer_sizes =
      {};  // input and classes included; empty: made of the data's and hidden_sizes
  ActivationKind activation = ActivationKind::relu;
  bool bias = false;         // of every layer; the last one's is added after final_scale
  double input_bound = 1.0;  // RMS of every input: 1 for pixels in [0, 1], more where they are standardised
  Initialization initialization = Initialization::orthogonal;
  double final_scale = 1.0;
};

struct TransformerOptions {
  static constexpr InputKind kInput = InputKind::tokens;

  int64_t vocab_size = 0;       // rows of the embedding and of the head
  int64_t real_vocab_size = 0;  // the first so many are tokens, the others padding; 0: all
  int64_t hidden_size = 256;
  int64_t num_hidden_layers = 3;
  MixingKind mixing = MixingKind::attention;
  int64_t memory_channels = 0;  // quadrature: channels of decaying maxima
  int64_t content_heads = 0;    // quadrature: heads that read tokens by what they are
  int64_t content_size = 0;     // of their queries and keys; 0: hidden_size
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 0;      // each serves as many query heads; 0: num_attention_heads
  int64_t intermediate_size = 0;        // 0: 4·hidden_size
  int64_t max_position_embeddings = 0;  // 0: the sequence length of the data
  PositionKind positions = PositionKind::rope;
  double rope_theta = 10000.0;
  bool rope_half_truncated = false;  // half of the pairs are not rotated: nn/rope.h
  ActivationKind activation = ActivationKind::gelu_tanh;
  double activation_divisor = 1.1289;
  bool gated = false;          // the feed-forward layer is W_down(f(W_gate x)/divisor ∘ W_up x)
  double softmax_scale = 1.0;  // logits are softmax_scale·q·k/d_h: 1 is the paper's, √d_h the usual one
  double attention_output_scale = 1.0 / 3.0;
  ResidualKind residual = ResidualKind::convex;
  double attention_alpha = 0.0;  // 0: 1/(2·num_hidden_layers)
  double mlp_alpha = 0.0;
  LearnedAlpha learned_alpha = LearnedAlpha::none;  // as a parameter of every branch it begins with these
  bool position_bias = false;                       // learned, per head and offset; free in the bound
  int64_t position_bias_offsets = 0;  // the last one serves all that are farther; 0: max_position_embeddings
  double position_bias_start = 0.0;   // head h of block b begins with this logit h·dilation^b places back
  int64_t position_bias_dilation = 1;
  bool qk_norm = false;  // queries and keys are divided by their RMS, head by head
  double qk_norm_epsilon = 1e-6;
  bool value_norm = false;       // values as well, with the same ε
  int64_t attention_window = 0;  // tokens up to the end of a token's block; 0: all before it
  int64_t window_block = 1;      // tokens of such a block, of which windows are multiples: nn/positions.h
  std::vector<int64_t> long_window_layers = {};  // the other layers' windows are half as long; empty: none is
  int64_t document_token = -1;       // begins a document, outside of which its tokens see nothing; −1: none
  bool logit_bias = false;           // learned, added to the logits; free in the bound
  NormLayer norm = NormLayer::none;  // before each branch and the head
  double norm_epsilon = 1e-5;
  bool norm_gain = true;          // norms have a learned gain
  bool norm_after = false;        // norms stand after each residual instead, and none before the head
  bool learnable_scales = false;  // attention output scale and final scale become parameters
  bool bias = false;
  bool tie_embeddings = false;  // the head is the embedding
  double dropout = 0.0;
  double branch_dropout = 0.0;  // of what branches give; 0: dropout
  double drop_path = 0.0;       // share of branches dropped in training, sequence by sequence
  double logit_soft_cap = 0.0;  // logits z become c·tanh(z/c); 0: they stay
  Initialization initialization = Initialization::orthogonal;
  double final_scale = 1.0;

  int64_t head_size() const { return hidden_size / num_attention_heads; }
};

using ModelOptions = std::variant<MlpOptions, TransformerOptions>;

// [model] of a recipe: the keys of both kinds, and which of them counts.
struct ModelRecipe {
  ModelKind kind = ModelKind::transformer;
  MlpOptions mlp = {};
  TransformerOptions transformer = {};

 private:
  template <class Self, class Use>
  static auto visit_kind(Self& self, const Use& use) {
    switch (self.kind) {
      case ModelKind::transformer:
        break;
      case ModelKind::mlp:
        return use(self.mlp);
    }
    return use(self.transformer);
  }

 public:
  // use(MlpOptions&) or use(TransformerOptions&): the options that count.
  template <class Use>
  auto visit(const Use& use) {
    return visit_kind(*this, use);
  }
  template <class Use>
  auto visit(const Use& use) const {
    return visit_kind(*this, use);
  }
  ModelOptions options() const {
    return visit([](const auto& own) { return ModelOptions(own); });
  }
  InputKind input() const {
    return visit([](const auto& own) { return own.kInput; });
  }
};

}  // namespace bridle
