// LipsFormer's bound as the paper uses it: see bridle/certify.h. It is no certificate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/certify.h"
#include "bridle/error.h"
#include "nn/activation.h"
#include "nn/linear.h"

namespace bridle {
namespace {

void need(bool condition, const char* what) {
  if (!condition)
    throw InputError("lipsformer formula",
                     fmt::format("it is for models with {}; the sound bound is for all", what));
}

const TransformerOptions& lipsformer_options(const std::optional<ModelOptions>& described) {
  const auto* options = described ? std::get_if<TransformerOptions>(&*described) : nullptr;
  need(options != nullptr && options->mixing == MixingKind::attention, "attention");
  need(options->qk_norm && options->value_norm && options->qk_norm_epsilon > 0.0,
       "qk_norm and value_norm, and an epsilon above 0");
  need(!options->gated, "a feed-forward layer without a gate");
  need(options->residual == ResidualKind::plain, "plain residuals");
  need(has_slope_one(options->activation) || options->activation == ActivationKind::gelu ||
           options->activation == ActivationKind::gelu_tanh,
       "an activation whose slope is limited");
  need(!options->learnable_scales, "fixed scales");
  return *options;
}

class Formula {
 public:
  Formula(const TransformerOptions& options, NormSource& norms) : options_(options), norms_(norms) {}

  // Weights come in the order of the signal; a branch is complete with its α, or where the next one begins.
  void meet(const Param& weight) {
    switch (weight.role) {
      case Role::query:
        query_ = norms_.matrix(weight);
        break;
      case Role::key:
        key_ = norms_.matrix(weight);
        break;
      case Role::value:
        branch(attention(norms_.matrix(weight)));
        break;
      case Role::mlp_up:
        up_ = norms_.matrix(weight);
        break;
      case Role::mlp_down:
        branch(up_ * norms_.matrix(weight) / options_.activation_divisor);
        break;
      case Role::residual_weight:
        alpha(norms_.largest_entry(weight));
        break;
      case Role::embedding:
      case Role::position_embedding:
      case Role::attention_output:
      case Role::head:
      case Role::position_bias:
      case Role::logit_bias:
      case Role::bias:
      case Role::gain:
        break;
      case Role::linear:
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

  UpperBound result() const { return lipschitz_; }

 private:
  UpperBound attention(const UpperBound& value) const {
    const auto n = static_cast<double>(options_.head_size());
    const UpperBound nu = UpperBound(std::abs(options_.attention_output_scale)) * sqrt(UpperBound(n)) *
                          static_cast<double>(options_.num_attention_heads);
    const UpperBound root = sqrt(UpperBound(1.0) / options_.qk_norm_epsilon / n);
    const UpperBound content = UpperBound(n - 1.0) * std::abs(options_.softmax_scale) * (key_ * n + query_);
    return UpperBound(2.0) * nu * root * (content + value * n);
  }

  void branch(const UpperBound& stretch) {
    if (options_.learned_alpha == LearnedAlpha::none)
      lipschitz_ *= UpperBound(1.0) + stretch;
    else
      stretch_ = stretch;
  }

  void alpha(const UpperBound& largest) { lipschitz_ *= UpperBound(1.0) + largest * stretch_; }

  const TransformerOptions& options_;
  NormSource& norms_;
  UpperBound query_ = 0.0, key_ = 0.0, up_ = 0.0;
  UpperBound stretch_ = 0.0;  // of the branch whose α comes next
  UpperBound lipschitz_ = 1.0;
};

}  // namespace

UpperBound lipsformer_formula(const Model& model, NormSource& norms) {
  const std::optional<ModelOptions> described = model.options();
  Formula formula(lipsformer_options(described), norms);
  for (const Param& weight : model.params()) formula.meet(weight);
  return formula.result();
}

}  // namespace bridle
