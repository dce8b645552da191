#include "nn/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/triu.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/dropout.h"
#include "nn/norms.h"

namespace bridle {
namespace {

LinearOptions square(const Weights& weights, Role role) {
  const ModelOptions& options = weights.options();
  return {.role = role, .out = options.hidden_size, .in = options.hidden_size, .bias = options.bias};
}

}  // namespace

Attention::Attention(Weights& weights, const std::string& name)
    : heads_(weights.options().num_attention_heads),
      size_(weights.options().hidden_size),
      softmax_scale_(weights.options().softmax_scale),
      dropout_(weights.options().dropout),
      query_(weights, name + ".q_proj", square(weights, Role::query)),
      key_(weights, name + ".k_proj", square(weights, Role::key)),
      value_(weights, name + ".v_proj", square(weights, Role::value)),
      output_(weights, name + ".o_proj", square(weights, Role::attention_output)),
      output_scale_(weights, name + ".output_scale", weights.options().attention_output_scale) {
  const ModelOptions& options = weights.options();
  if (options.positions == "rope") rope_.emplace(size_ / heads_, options.rope_theta);
  if (!options.position_bias) return;
  position_bias_ = weights.vector(name + ".position_bias", Role::position_bias,
                                  {heads_, options.position_bias_offsets}, 0.0);
  const at::NoGradGuard no_gradients;
  int64_t apart = 1;
  for (int64_t block = 1; block < options.num_hidden_layers - weights.attention_residuals_after; ++block)
    apart = std::min(apart * options.position_bias_dilation, options.position_bias_offsets);
  for (int64_t head = 0; head < heads_ && head * apart < options.position_bias_offsets; ++head)
    position_bias_->tensor[head][head * apart].fill_(options.position_bias_start);
}

at::Tensor Attention::split(const at::Tensor& x) const {
  return x.view({x.size(0), x.size(1), heads_, size_ / heads_}).transpose(1, 2);
}

at::Tensor Attention::added_logits(const at::Tensor& like, int64_t length) const {
  const int64_t rows = like.size(2), before = length - rows;
  const at::Tensor mask = at::full({rows, length}, -std::numeric_limits<double>::infinity(),
                                   like.options().dtype(at::kFloat).requires_grad(false))
                              .triu(before + 1);
  if (!position_bias_) return mask.to(like.scalar_type());
  const at::Tensor position = at::arange(length, mask.options().dtype(at::kLong));
  const at::Tensor offset = position.narrow(0, before, rows)
                                .unsqueeze(1)
                                .sub(position)
                                .clamp(0, position_bias_->tensor.size(1) - 1);
  const at::Tensor bias =
      position_bias_->tensor.index_select(1, offset.view({-1})).view({heads_, rows, length});
  return bias.add(mask).to(like.scalar_type());
}

at::Tensor Attention::forward(const at::Tensor& x, Pass& pass, KeyValueCache::Layer* cache) const {
  at::Tensor q = split(query_.forward(x));
  at::Tensor k = split(key_.forward(x));
  at::Tensor v = split(value_.forward(x));
  const int64_t before = cache != nullptr && cache->keys.defined() ? cache->keys.size(2) : 0;
  if (rope_) {
    q = rope_->forward(q, before);
    k = rope_->forward(k, before);
  }
  if (cache != nullptr) {
    cache->keys = k = before == 0 ? k : at::cat({cache->keys, k}, 2);
    cache->values = v = before == 0 ? v : at::cat({cache->values, v}, 2);
  }
  const double scale = softmax_scale_ * static_cast<double>(heads_) / static_cast<double>(size_);
  const at::Tensor logits =
      at::matmul(q.mul(scale), k.transpose(2, 3)).add(added_logits(q, k.size(2)));  // [B, H, T, length]
  const at::Tensor weights = dropout(at::softmax(logits, -1), dropout_, pass);
  const at::Tensor heads = at::matmul(weights, v).transpose(1, 2).reshape(x.sizes());
  return output_.forward(output_scale_.forward(heads));
}

// How much a change of the input is stretched before W_O and c, in RMS norms, for inputs of norm a, the values' heads
// divided by `scales`. With R = √d·a every token has |x| ≤ R; q̂, k̂, v̂ bound a head's vectors.
UpperBound Attention::stretch(const UpperBound& a, const std::vector<double>& scales, Walk& walk) const {
  const std::vector<UpperBound> q = walk.norms.heads(query_.weight(), heads_);
  const std::vector<UpperBound> k = walk.norms.heads(key_.weight(), heads_);
  const std::vector<UpperBound> v = walk.norms.heads(value_.weight(), heads_);
  const auto largest = [&](const std::vector<UpperBound>& norms, const Linear& linear) {
    std::vector<UpperBound> result;
    const auto bias = linear.bias() ? walk.norms.euclidean_heads(*linear.bias(), heads_)
                                    : std::vector<UpperBound>(norms.size());
    for (size_t h = 0; h < norms.size(); ++h)
      result.push_back(norms[h] * sqrt(UpperBound(static_cast<double>(size_))) * a + bias[h]);
    return result;
  };
  const auto q_hat = largest(q, query_);
  const auto k_hat = largest(k, key_);
  const auto v_hat = largest(v, value_);
  const double head_size = static_cast<double>(size_) / static_cast<double>(heads_);
  const UpperBound scale = UpperBound(std::abs(softmax_scale_)) / head_size;
  UpperBound by_head = 0.0;
  UpperBound values = 0.0;
  std::vector<UpperBound> products;
  for (size_t h = 0; h < v.size(); ++h) {
    const UpperBound value = v[h] / scales[h];
    const UpperBound head = value + scale * (v_hat[h] / scales[h]) * (q[h] * k_hat[h] + q_hat[h] * k[h]);
    by_head += head * head;
    values += value * value;
    products.push_back(k[h] * value);
  }
  if (query_.bias()) return sqrt(by_head);  // the other form is for layers without bias
  const UpperBound content = UpperBound(2.0) * scale * static_cast<double>(size_) * a * a;
  return min(sqrt(by_head), sqrt(values) + content * walk.norms.scaled_heads(query_.weight(), products));
}

Bound Attention::bound(const Bound& in, Walk& walk) const {
  if (position_bias_) walk.norms.largest_entry(*position_bias_);  // free in the bound, but it must be finite
  UpperBound squares = 0.0;                                       // of the largest values, in units of √d
  const std::vector<UpperBound> v = walk.norms.heads(value_.weight(), heads_);
  // Head scales must help the stretch and must not make the activation larger.
  const auto price = [&](const std::vector<double>& tried) {
    const auto estimate = [&](const std::vector<double>& s) {
      EstimatedNorms norms;
      Walk estimated(norms);
      const UpperBound output = norms.scaled_columns(output_.weight(), s);
      UpperBound values = 0.0;
      for (size_t h = 0; h < v.size(); ++h) values += (v[h] / s[h]) * (v[h] / s[h]);
      return std::pair{(output * stretch(in.activation, s, estimated)).to_double(),
                       (output * sqrt(values)).to_double()};
    };
    const auto [stretch_before, values_before] = estimate(std::vector<double>(tried.size(), 1.0));
    const auto [stretch_then, values_then] = estimate(tried);
    return std::max(stretch_then / stretch_before, values_then / values_before);
  };
  const std::vector<double> scales = walk.norms.head_scales(value_.weight(), output_.weight(), heads_, price);
  const auto bias =
      value_.bias() ? walk.norms.euclidean_heads(*value_.bias(), heads_) : std::vector<UpperBound>(v.size());
  for (size_t h = 0; h < v.size(); ++h) {
    const UpperBound value = (v[h] * in.activation + bias[h] * root_of_ratio(1, size_)) / scales[h];
    squares += value * value;
  }
  const Bound heads{.activation = sqrt(squares),
                    .lipschitz = stretch(in.activation, scales, walk) * in.lipschitz};
  const UpperBound offset =
      output_.bias() ? walk.norms.euclidean(*output_.bias()) * root_of_ratio(1, size_) : 0.0;
  return output_scale_.bound(heads, walk).affine(walk.norms.scaled_columns(output_.weight(), scales), offset);
}

}  // namespace bridle
