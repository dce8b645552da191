#include "bridle/head_logits.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <stdexcept>

#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace bridle {
namespace {

class Walker {
 public:
  Walker(const Model& model, const TransformerOptions& options) : o_(options), norms_(measured_norms()) {
    for (const Param& param : model.params()) params_[param.name] = param;
  }

  std::vector<HeadLogit> walk(const CertifiedBound& bound) {
    std::vector<HeadLogit> all;
    for (int64_t layer = 0; layer < o_.num_hidden_layers; ++layer) {
      const std::string name = fmt::format("model.layers.{}", layer);
      const UpperBound into =
          stated(bound, layer == 0 ? "model.embed_tokens" : fmt::format("model.layers.{}.mlp", layer - 1));
      const UpperBound token = normed(into, name + ".input_layernorm") * root_of_ratio(o_.hidden_size, 1);
      const auto queries = lengths(name + ".self_attn.q_proj", token),
                 keys = lengths(name + ".self_attn.k_proj", token);
      const UpperBound scale = UpperBound(std::abs(o_.softmax_scale)) / static_cast<double>(o_.head_size());
      for (size_t h = 0; h < queries.size(); ++h)
        all.push_back({.layer = layer,
                       .head = static_cast<int64_t>(h),
                       .query = StatedBound::of(queries[h]),
                       .key = StatedBound::of(keys[h]),
                       .logit = StatedBound::of(scale * queries[h] * keys[h])});
    }
    return all;
  }

 private:
  // An activation beyond a double is stated by its logarithm alone.
  static UpperBound stated(const CertifiedBound& bound, const std::string& name) {
    for (const StatedLayer& layer : bound.layers)
      if (layer.name == name)
        return std::isfinite(layer.activation.value) ? UpperBound(layer.activation.value)
                                                     : UpperBound::unbounded();
    throw std::logic_error("a layer without a bound: " + name);
  }

  UpperBound normed(const UpperBound& a, const std::string& name) {
    if (o_.norm_after) return a;
    const auto weight = params_.find(name + ".weight"), bias = params_.find(name + ".bias");
    const UpperBound gain = weight == params_.end() ? UpperBound(1.0) : norms_->largest_entry(weight->second);
    const UpperBound offset = bias == params_.end()
                                  ? UpperBound(0.0)
                                  : norms_->euclidean(bias->second) * root_of_ratio(1, o_.hidden_size);
    switch (o_.norm) {
      case NormLayer::none:
      case NormLayer::tanh:
        return a;
      case NormLayer::rms_norm:
      case NormLayer::layer_norm:
        return gain + offset;
      case NormLayer::center_norm:
        return gain * static_cast<double>(o_.hidden_size) / static_cast<double>(o_.hidden_size - 1) * a +
               offset;
    }
    throw std::logic_error("a norm without a bound");
  }

  std::vector<UpperBound> lengths(const std::string& name, const UpperBound& token) {
    const Param& weight = params_.at(name + ".weight");
    std::vector<UpperBound> all = norms_->heads(weight, weight.heads);
    const auto bias = params_.find(name + ".bias");
    const std::vector<UpperBound> biases = bias == params_.end()
                                               ? std::vector<UpperBound>(all.size())
                                               : norms_->euclidean_heads(bias->second, weight.heads);
    for (size_t h = 0; h < all.size(); ++h) {
      all[h] = all[h] * token + biases[h];
      if (o_.qk_norm) all[h] = min(root_of_ratio(o_.head_size(), 1), all[h] * rms_slope(o_.qk_norm_epsilon));
    }
    return per_query_head(all, o_.num_attention_heads);
  }

  const TransformerOptions& o_;
  std::unique_ptr<NormSource> norms_;
  std::map<std::string, Param> params_;
};

}  // namespace

std::vector<HeadLogit> head_logits(const Model& model, const CertifiedBound& bound) {
  const at::NoGradGuard no_gradients;
  const std::optional<ModelOptions> options = model.options();
  const auto* transformer = options ? std::get_if<TransformerOptions>(&*options) : nullptr;
  if (transformer == nullptr || transformer->mixing != MixingKind::attention) return {};
  return Walker(model, *transformer).walk(bound);
}

}  // namespace bridle
