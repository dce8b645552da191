#include "certify/paper_formula.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rounding.h"
#include "bridle/error.h"
#include "nn/linear.h"

namespace bridle {
namespace {

void check_defined(const ModelOptions& options) {
  const auto refuse = [](bool condition, const char* what) {
    if (condition)
      throw InputError("paper formula",
                       fmt::format("it is not defined for a model with {}; the sound bound is", what));
  };
  refuse(options.norm != "none", "norm layers");
  refuse(options.residual != "convex", "plain residuals");
  refuse(options.bias, "biases");
  refuse(options.tie_embeddings, "tied embeddings");
  refuse(options.positions == "learned", "learned positions");
  refuse(options.learnable_scales, "learned scales");
}

// σ(W)·√(in/out).
UpperBound rms_norm(const Param& weight, Norms& norms) {
  return norms.matrix(weight) * root_of_ratio(weight.tensor.size(1), weight.tensor.size(0));
}

UpperBound through_residual(double alpha, const UpperBound& branch) {
  return UpperBound(next_up(std::abs(1.0 - alpha))) + UpperBound(std::abs(alpha)) * branch;
}

class Formula {
 public:
  Formula(const ModelOptions& options, Norms& norms) : options_(options), norms_(norms) {}

  // Weights come in the order of the signal; a layer is complete with its last one.
  void meet(const Param& weight) {
    switch (weight.role) {
      case Role::embedding:
        lipschitz_ = norms_.largest_row_rms(weight);
        break;
      case Role::query:
      case Role::key:
        content_ *= rms_norm(weight, norms_);
        break;
      case Role::value:
      case Role::mlp_up:
        gain_ = rms_norm(weight, norms_);
        break;
      case Role::attention_output:
        attention(gain_ * rms_norm(weight, norms_) * std::abs(options_.attention_output_scale));
        break;
      case Role::mlp_down:
        feed_forward(gain_ * rms_norm(weight, norms_) / options_.activation_divisor);
        break;
      case Role::linear:
      case Role::head:
        lipschitz_ *= rms_norm(weight, norms_);
        break;
      default:
        break;  // position biases are constant in the logits
    }
  }

  const UpperBound& result() const { return lipschitz_; }  // before the final scale

 private:
  void attention(const UpperBound& gain) {
    const UpperBound stretch = gain * std::abs(options_.softmax_scale) *
                               (UpperBound(1.0) + UpperBound(2.0) * activation_ * activation_ * content_);
    lipschitz_ *= through_residual(options_.attention_alpha, stretch);
    activation_ *= through_residual(options_.attention_alpha, gain);
    content_ = 1.0;
  }

  void feed_forward(const UpperBound& gain) {
    lipschitz_ *= through_residual(options_.mlp_alpha, gain);
    activation_ *= through_residual(options_.mlp_alpha, gain);
  }

  const ModelOptions& options_;
  Norms& norms_;
  UpperBound lipschitz_ = 1.0;
  UpperBound activation_ = 1.0;
  UpperBound content_ = 1.0;  // ‖W_Q‖·‖W_K‖ of the attention that the signal is in
  UpperBound gain_ = 1.0;     // of the branch's first matrix
};

}  // namespace

UpperBound paper_formula(const Model& model, Norms& norms, FinalScale scale) {
  if (model.options().kind == "transformer") check_defined(model.options());
  Formula formula(model.options(), norms);
  for (const Param& weight : model.params()) formula.meet(weight);
  const double factor = scale == FinalScale::counted ? std::abs(model.options().final_scale) : 1.0;
  return formula.result() * factor;
}

}  // namespace bridle
