#include "bridle/certify.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rounding.h"
#include "bridle/error.h"
#include "nn/activation.h"
#include "nn/linear.h"

namespace bridle {
namespace {

void refuse(bool condition, const char* what) {
  if (condition)
    throw InputError("paper formula",
                     fmt::format("it is not defined for a model with {}; the sound bound is", what));
}

// Between the layers of an MLP nothing is divided.
void check_defined(const MlpOptions& options) {
  refuse(!has_slope_one(options.activation), "an activation that is not divided by its slope");
  refuse(options.bias, "biases");
}

void check_defined(const TransformerOptions& options) {
  refuse(options.activation == ActivationKind::relu_squared, "ReLU², whose slope has no limit");
  refuse(options.learned_alpha != LearnedAlpha::none, "learned α");
  refuse(options.mixing != MixingKind::attention, "quadrature mixing");
  refuse(options.gated, "a gated feed-forward layer");
  refuse(options.qk_norm, "normalised queries and keys");
  refuse(options.norm != NormLayer::none, "norm layers");
  refuse(options.residual != ResidualKind::convex, "plain residuals");
  refuse(options.bias, "biases");
  refuse(options.tie_embeddings, "tied embeddings");
  refuse(options.positions == PositionKind::learned, "learned positions");
  refuse(options.learnable_scales, "learned scales");
}

// σ(W)·√(in/out).
UpperBound rms_norm(const Param& weight, NormSource& norms) {
  return norms.matrix(weight) * root_of_ratio(weight.tensor.size(1), weight.tensor.size(0));
}

UpperBound through_residual(double alpha, const UpperBound& branch) {
  return UpperBound(next_up(std::abs(1.0 - alpha))) + UpperBound(std::abs(alpha)) * branch;
}

// The scalars of a model that the formula knows.
struct Scalars {
  explicit Scalars(const MlpOptions& options) : final_scale(options.final_scale) { check_defined(options); }
  explicit Scalars(const TransformerOptions& options)
      : softmax_scale(options.softmax_scale),
        attention_output_scale(options.attention_output_scale),
        activation_divisor(options.activation_divisor),
        attention_alpha(options.attention_alpha),
        mlp_alpha(options.mlp_alpha),
        final_scale(options.final_scale) {
    check_defined(options);
  }
  double softmax_scale = 1.0, attention_output_scale = 1.0, activation_divisor = 1.0;
  double attention_alpha = 0.0, mlp_alpha = 0.0;
  double final_scale;
};

class Formula {
 public:
  Formula(const Scalars& scalars, NormSource& norms) : scalars_(scalars), norms_(norms) {}

  // Weights come in the order of the signal; a layer is complete with its last one.
  void meet(const Param& weight) {
    switch (weight.role) {
      case Role::embedding:
        lipschitz_ = norms_.largest_row_rms(weight);
        break;
      case Role::query:
      case Role::key:
        content_ *= projection_norm(weight);
        break;
      case Role::value:
        gain_ = projection_norm(weight);
        break;
      case Role::mlp_up:
        gain_ = rms_norm(weight, norms_);
        break;
      case Role::attention_output:
        attention(gain_ * rms_norm(weight, norms_) * std::abs(scalars_.attention_output_scale));
        break;
      case Role::mlp_down:
        feed_forward(gain_ * rms_norm(weight, norms_) / scalars_.activation_divisor);
        break;
      case Role::linear:
      case Role::head:
        lipschitz_ *= rms_norm(weight, norms_);
        break;
      case Role::position_bias:
      case Role::logit_bias:
        break;  // constant in the logits
      case Role::position_embedding:
      case Role::bias:
      case Role::gain:
      case Role::residual_weight:
      case Role::mixing_output:
      case Role::content_query:
      case Role::content_key:
      case Role::mixing_weight:
      case Role::memory:
      case Role::memory_decay:
      case Role::content_range:
        break;  // refused before
    }
  }

  const UpperBound& result() const { return lipschitz_; }  // before the final scale

 private:
  // Heads stand side by side, as wide as the input.
  UpperBound projection_norm(const Param& weight) {
    refuse(weight.tensor.size(0) != weight.tensor.size(1),
           "queries, keys or values that are narrower than the input");
    return rms_norm(weight, norms_);
  }

  void attention(const UpperBound& gain) {
    const UpperBound stretch = gain * std::abs(scalars_.softmax_scale) *
                               (UpperBound(1.0) + UpperBound(2.0) * activation_ * activation_ * content_);
    lipschitz_ *= through_residual(scalars_.attention_alpha, stretch);
    activation_ *= through_residual(scalars_.attention_alpha, gain);
    content_ = 1.0;
  }

  void feed_forward(const UpperBound& gain) {
    lipschitz_ *= through_residual(scalars_.mlp_alpha, gain);
    activation_ *= through_residual(scalars_.mlp_alpha, gain);
  }

  Scalars scalars_;
  NormSource& norms_;
  UpperBound lipschitz_ = 1.0;
  UpperBound activation_ = 1.0;
  UpperBound content_ = 1.0;  // ‖W_Q‖·‖W_K‖ of the attention that the signal is in
  UpperBound gain_ = 1.0;     // of the branch's first matrix
};

}  // namespace

UpperBound paper_formula(const Model& model, NormSource& norms, FinalScale scale) {
  const std::optional<ModelOptions> described = model.options();
  if (!described)
    throw InputError("certify", "the paper has no formula for a model that no options describe");
  const Scalars scalars = std::visit([](const auto& options) { return Scalars(options); }, *described);
  Formula formula(scalars, norms);
  for (const Param& weight : model.params()) formula.meet(weight);
  return formula.result() * (scale == FinalScale::counted ? std::abs(scalars.final_scale) : 1.0);
}

}  // namespace bridle
