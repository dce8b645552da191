#include "nn/mlp.h"

#include <fmt/format.h>

namespace bridle {

Mlp::Mlp(const MlpOptions& options, const WeightOrigin& origin)
    : options_(options),
      activation_(options.activation, 1.0),
      fused_([this](const StepKernels& kernels) { return fused_program(kernels); }) {
  Weights weights(options.initialization, 1, origin, params_);
  const std::vector<int64_t>& sizes = options.layer_sizes;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const bool last = i + 2 == sizes.size();
    layers_.emplace_back(weights, fmt::format("model.layers.{}", i),
                         LinearOptions{.role = last ? Role::head : Role::linear,
                                       .out = sizes[i + 1],
                                       .in = sizes[i],
                                       .bias = options.bias && !last});
    if (options.bias && last)
      logit_bias_ =
          weights.vector(fmt::format("model.layers.{}.bias", i), Role::logit_bias, {sizes[i + 1]}, 0.0);
  }
}

at::Tensor Mlp::forward_from(const at::Tensor& pixels, Pass& pass) const {
  at::Tensor x = pixels;
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i].forward(x);
    if (i + 1 < layers_.size())
      x = activation_.forward(x);
    else if (options_.final_scale != 1.0)
      x = x.mul(options_.final_scale);
    if (i + 1 == layers_.size() && logit_bias_) x = x.add(logit_bias_->tensor.to(x.scalar_type()));
    if (pass.statistics != nullptr) pass.statistics->record(fmt::format("model.layers.{}", i), x);
  }
  return x;
}

ModelShape Mlp::shape() const {
  return {
      .input = options_.kInput, .size = options_.layer_sizes.front(), .outputs = options_.layer_sizes.back()};
}

// Nobody asks for the gradient of the inputs.
ModelFlop Mlp::flop(int64_t /*length*/) const {
  const auto products = [](const Linear& layer) {
    return 2.0 * static_cast<double>(layer.weight().tensor.numel());
  };
  double all = 0.0;
  for (const Linear& layer : layers_) all += products(layer);
  return {.forward = all, .backward = 2.0 * all - products(layers_.front())};
}

// Inputs of layers, slopes of activations where the pass is fused, gradients; the logits in float32, twice.
PassMemory Mlp::memory(const BatchShape& batch, const Pass& pass, int /*threads*/) const {
  constexpr double kFloat = 4.0, kBfloat16 = 2.0;
  const bool fused = why_not_fused(pass).empty();
  double numbers = 0.0, weights = 0.0;
  for (const Linear& layer : layers_) {
    const auto out = static_cast<double>(layer.weight().tensor.size(0));
    const auto in = static_cast<double>(layer.weight().tensor.size(1));
    numbers += out + (fused ? 2.0 * in : &layer == layers_.data() ? 0.0 : in);
    weights += out * in;
  }
  const auto outputs = static_cast<double>(options_.layer_sizes.back());
  const double value = pass.dtype == at::kBFloat16 ? kBfloat16 : kFloat;
  return {.packed = fused ? (2.0 * value + kFloat) * weights : 0.0,
          .activations = static_cast<double>(batch.size) *
                         ((fused ? value : kFloat) * numbers + 2.0 * kFloat * outputs)};
}

Bound Mlp::bound(const UpperBound& domain, Walk& walk) const {
  Bound x{.activation = domain, .lipschitz = 1.0};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const UpperBound before = x.lipschitz;
    x = layers_[i].bound(x, walk);
    if (i + 1 < layers_.size()) {
      x = activation_.bound(x, layers_[i].weight().tensor.size(0));
    } else {
      const Param& head = layers_[i].weight();
      walk.trunk = before;
      walk.largest_logit = one_logit(before, walk.norms.largest_row_rms(head), head.tensor.size(1)) *
                           std::abs(options_.final_scale);
      x = x.affine(std::abs(options_.final_scale));
      if (logit_bias_)
        x = x.affine(1.0, walk.norms.euclidean(*logit_bias_) * root_of_ratio(1, head.tensor.size(0)));
    }
    x = walk.record(fmt::format("model.layers.{}", i), x, layers_[i].weight().tensor.size(0));
  }
  return x;
}

LogitEnclosure Mlp::enclose(const at::Tensor& pixels, ErrorWalk& walk) const {
  Enclosure x = walk.start(pixels);
  for (size_t i = 0; i + 1 < layers_.size(); ++i)
    x = walk.record(fmt::format("model.layers.{}", i),
                    activation_.enclose(layers_[i].enclose(x, walk), walk));
  return enclose_logits(x,
                        {.rows = layers_.back().weight(),
                         .scale = options_.final_scale,
                         .bias = logit_bias_ ? &*logit_bias_ : nullptr},
                        walk);
}

}  // namespace bridle
