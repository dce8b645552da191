#include "nn/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/dropout.h"
#include "nn/fused_attention.h"
#include "nn/fused_linear.h"
#include "nn/heads.h"
#include "nn/norm.h"
#include "nn/norms.h"

namespace bridle {
namespace {

LinearOptions projection(const TransformerOptions& options, Role role) {
  LinearOptions layer{
      .role = role, .out = options.hidden_size, .in = options.hidden_size, .bias = options.bias};
  if (role == Role::query) layer.heads = options.num_attention_heads;
  if (role == Role::key || role == Role::value) {
    layer.heads = options.num_key_value_heads;
    layer.out = options.num_key_value_heads * options.head_size();
  }
  return layer;
}

Enclosure enclosure_per_query_head(const Enclosure& x, int64_t heads) {
  return {per_query_head(x.values, heads, 1), per_query_head(x.reach, heads, 2),
          per_query_head(x.error, heads, 2)};
}

}  // namespace

Attention::Attention(const TransformerOptions& options, Weights& weights, const std::string& name,
                     int64_t block)
    : heads_(options.num_attention_heads),
      size_(options.hidden_size),
      softmax_scale_(options.softmax_scale),
      dropout_(options.dropout),
      qk_epsilon_(options.qk_norm ? std::optional(options.qk_norm_epsilon) : std::nullopt),
      value_epsilon_(options.value_norm ? std::optional(options.qk_norm_epsilon) : std::nullopt),
      sees_(visibility(options, block)),
      query_(weights, name + ".q_proj", projection(options, Role::query)),
      key_(weights, name + ".k_proj", projection(options, Role::key)),
      value_(weights, name + ".v_proj", projection(options, Role::value)),
      output_(weights, name + ".o_proj", projection(options, Role::attention_output)),
      output_scale_(weights, name + ".output_scale", options.attention_output_scale,
                    options.learnable_scales) {
  switch (options.positions) {
    case PositionKind::rope:
      rope_.emplace(RopeOptions{.head_size = options.head_size(),
                                .theta = options.rope_theta,
                                .half_truncated = options.rope_half_truncated});
      break;
    case PositionKind::learned:  // added to the embedding
    case PositionKind::none:
      break;
  }
  if (!options.position_bias) return;
  position_bias_ = weights.vector(name + ".position_bias", Role::position_bias,
                                  {heads_, options.position_bias_offsets}, 0.0);
  if (weights.are_given()) return;
  start_positions_(*position_bias_, options, block);
}

at::Tensor Attention::split(const at::Tensor& x) const {
  return x.view({x.size(0), x.size(1), -1, size_ / heads_}).transpose(1, 2);
}

at::Tensor Attention::added_logits(const at::Tensor& like, int64_t length, const Pass& pass) const {
  const int64_t rows = like.size(2);
  const at::Tensor mask =
      sees_.logits(rows, length, pass, like.options().dtype(at::kFloat).requires_grad(false));
  if (!position_bias_) return mask.to(like.scalar_type());
  return biases_by_distance(position_bias_->tensor, rows, length).add(mask).to(like.scalar_type());
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
  if (qk_epsilon_) {  // rotations leave lengths as they are, so that the order does not matter
    q = divided_by_rms(q, *qk_epsilon_);
    k = divided_by_rms(k, *qk_epsilon_);
  }
  if (value_epsilon_) v = divided_by_rms(v, *value_epsilon_);
  if (cache != nullptr) {
    cache->keys = k = before == 0 ? k : at::cat({cache->keys, k}, 2);
    cache->values = v = before == 0 ? v : at::cat({cache->values, v}, 2);
  }
  k = per_query_head(k, heads_, 1);
  v = per_query_head(v, heads_, 1);
  const at::Tensor heads = attend(q, k, v, pass).transpose(1, 2).reshape(x.sizes());
  return output_.forward(output_scale_.forward(heads));
}

// [B, H, T, d_h] and [B, H, length, d_h], the queries being those of the last T tokens.
at::Tensor Attention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             Pass& pass) const {
  const at::Tensor logits = at::matmul(q.mul(logit_scale()), k.transpose(2, 3))
                                .add(added_logits(q, k.size(2), pass));  // [B, H, T, length]
  return at::matmul(dropout(at::softmax(logits, -1), dropout_, pass), v);
}

// A query's logits move by what query and keys are off; the weights by at most as much in all, or by 2; the head's output
// by what the values are off and what the weights have moved.
Enclosure Attention::enclose(const Enclosure& x, ErrorWalk& walk) const {
  Enclosure q = query_.enclose_heads(x, heads_, walk);
  Enclosure k = key_.enclose_heads(x, key_.weight().heads, walk);
  Enclosure v = value_.enclose_heads(x, value_.weight().heads, walk);
  if (rope_) {
    q = rope_->enclose(q, walk);
    k = rope_->enclose(k, walk);
  }
  if (qk_epsilon_) {
    q = enclose_divided_by_rms(q, *qk_epsilon_, walk);
    k = enclose_divided_by_rms(k, *qk_epsilon_, walk);
  }
  if (value_epsilon_) v = enclose_divided_by_rms(v, *value_epsilon_, walk);
  k = enclosure_per_query_head(k, heads_);
  v = enclosure_per_query_head(v, heads_);
  const auto so_far = [](const at::Tensor& t) {
    return std::get<0>(t.cummax(-1));
  };  // over tokens up to each
  const at::Tensor q_size = walk.size(q), k_size = so_far(walk.size(k)), v_size = so_far(walk.size(v));
  const double scale = std::abs(logit_scale()) * (1.0 + 0x1p-50);
  const auto moved = [&](const at::Tensor& of_q, const at::Tensor& of_k) {
    return of_q.mul(k_size).add(q_size.mul(so_far(of_k))).mul(scale);
  };
  const int64_t dimensions = q.error.dim(), tokens = x.values.size(1);
  const at::Tensor unit = walk.unit(dimensions), sum_unit = walk.sum_unit(dimensions);
  const at::Tensor bias = position_bias_ ? position_bias_->tensor.detach().to(at::kDouble).abs().amax(1)
                                         : at::zeros({heads_}, at::kDouble);
  const at::Tensor content = q_size.mul(k_size).mul(scale);
  const at::Tensor logits = raised(content.add(bias.view({1, 1, -1, 1})));  // none is larger
  const int64_t head_size = size_ / heads_;
  const at::Tensor products = walk.batched_sum_error(head_size + 6, dimensions).mul(2.0).add(unit.mul(5.0));
  const at::Tensor rounding = content.mul(products).add(logits.mul(unit.mul(4.0).add(sum_unit.mul(4.0))));
  const at::Tensor flushed =
      k_size.add(q_size, scale).mul(std::sqrt(static_cast<double>(head_size))).add(1e3);
  const at::Tensor off =
      raised(moved(q.error, k.error).add(rounding).add(flushed.mul(walk.least(dimensions))));
  // exp, the sum, the quotient, what is stored, and what has underflowed.
  const at::Tensor shares = walk.sum_error(tokens + 32, dimensions)
                                .add(unit)
                                .add(walk.least(dimensions).mul(static_cast<double>(tokens)));
  const at::Tensor weights = off.clamp_max(2.0).add(shares.mul(2.0));
  const at::Tensor error =
      so_far(v.error)
          .mul(shares.add(1.0))
          .add(v_size.mul(weights.add(walk.batched_sum_error(tokens + 4, dimensions).mul(2.0))))
          .add(walk.least(dimensions).mul(static_cast<double>(tokens * size_)));
  const at::Tensor reach = so_far(v.reach).add(v_size.mul(moved(q.reach, k.reach).clamp_max(2.0)));
  // The program multiplies masked tokens too, by zero, so that one of them that overflows spoils every row.
  const auto of_all = [](const at::Tensor& t) { return t.amax(-1, /*keepdim=*/true); };
  const at::Tensor largest =
      raised(q_size.mul(of_all(k_size)).mul(scale).add(q_size, scale).add(bias.view({1, 1, -1, 1})));
  const at::Tensor known = walk.guarded(walk.guarded(raised(error), largest), of_all(v_size).expand_as(error))
                               .add(walk.scalar_error(logit_scale(), dimensions))
                               .masked_fill(products.isinf(), std::numeric_limits<double>::infinity());
  Pass pass{.dtype = at::kDouble, .begins = walk.begins};
  const Enclosure by_head = walk.stored(attend(q.values, k.values, v.values, pass), raised(reach), known);
  const auto together = [](const at::Tensor& t) { return raised(t.square().sum(2).sqrt()); };  // [K, B, T]
  const Enclosure heads{by_head.values.transpose(1, 2).reshape(x.values.sizes()), together(by_head.reach),
                        together(by_head.error)};
  return output_.enclose(output_scale_.enclose(heads, walk), walk);
}

std::vector<UpperBound> Attention::head_norms(const Linear& layer, Walk& walk) const {
  return per_query_head(walk.norms.heads(layer.weight(), layer.weight().heads), heads_);
}

std::vector<UpperBound> Attention::head_biases(const Linear& layer, Walk& walk) const {
  if (!layer.bias()) return std::vector<UpperBound>(static_cast<size_t>(heads_));
  return per_query_head(walk.norms.euclidean_heads(*layer.bias(), layer.weight().heads), heads_);
}

// How much a change of the input is stretched before W_O and c, in RMS norms, for inputs of norm a, the values' heads
// divided by `scales`. With R = √d·a every token has |x| ≤ R; q̂, k̂, v̂ bound a head's vectors. Where queries and keys, or values, are
// normalised, their stretch is 1/√ε times as large and their length at most √d_h.
UpperBound Attention::stretch(const UpperBound& a, const std::vector<double>& scales, Walk& walk) const {
  std::vector<UpperBound> q = head_norms(query_, walk), k = head_norms(key_, walk);
  std::vector<UpperBound> v = head_norms(value_, walk);
  const auto largest = [&](const std::vector<UpperBound>& norms, const Linear& layer) {
    std::vector<UpperBound> result = head_biases(layer, walk);
    for (size_t h = 0; h < norms.size(); ++h)
      result[h] = norms[h] * sqrt(UpperBound(static_cast<double>(size_))) * a + result[h];
    return result;
  };
  auto q_hat = largest(q, query_), k_hat = largest(k, key_);
  auto v_hat = largest(v, value_);
  const auto normalise = [&](double epsilon, std::vector<UpperBound>& norms,
                             std::vector<UpperBound>& lengths) {
    const UpperBound slope = rms_slope(epsilon), length = root_of_ratio(size_, heads_);
    for (UpperBound& norm : norms) norm = norm * slope;
    for (UpperBound& own : lengths) own = min(length, own * slope);
  };
  if (qk_epsilon_) {
    normalise(*qk_epsilon_, q, q_hat);
    normalise(*qk_epsilon_, k, k_hat);
  }
  if (value_epsilon_) normalise(*value_epsilon_, v, v_hat);
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
  // The other form is for queries and values that are linear in the input.
  if (query_.bias() || qk_epsilon_ || value_epsilon_) return sqrt(by_head);
  const UpperBound content = UpperBound(2.0) * scale * static_cast<double>(size_) * a * a;
  return min(sqrt(by_head), sqrt(values) + content * walk.norms.scaled_heads(query_.weight(), products));
}

void Attention::fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const {
  const int64_t kv_size = key_.weight().tensor.size(0), width = padded(size_) + 2 * padded(kv_size);
  const FusedHeads heads{.qkv = program.matrix(width),
                         .d_qkv = program.matrix(width),
                         .query = {.column = 0, .heads = heads_},
                         .key = {.column = padded(size_), .heads = key_.weight().heads},
                         .value = {.column = padded(size_) + padded(kv_size), .heads = value_.weight().heads},
                         .head_size = size_ / heads_};
  std::vector<Param> biases;
  for (const Linear* layer : {&query_, &key_, &value_})
    if (layer->bias()) biases.push_back(*layer->bias());
  program.add(std::make_unique<FusedLinear>(
      program, FusedLinearOptions{.weights = {query_.weight(), key_.weight(), value_.weight()},
                                  .biases = biases,
                                  .in = in,
                                  .out = heads.qkv,
                                  .d_out = heads.d_qkv}));
  if (rope_) program.add(std::make_unique<FusedRope>(heads, rope_->options()));
  std::vector<FusedHeads::Part> normed;
  if (qk_epsilon_) normed = {heads.query, heads.key};
  if (value_epsilon_) normed.push_back(heads.value);
  if (!normed.empty())
    program.add(std::make_unique<FusedHeadNorm>(program, heads, normed,
                                                qk_epsilon_ ? *qk_epsilon_ : *value_epsilon_));
  program.cut_forward();
  const FusedAttentionOptions attention{.heads = heads,
                                        .scale = static_cast<float>(logit_scale()),
                                        .position_bias = position_bias_,
                                        .out = program.matrix(size_),
                                        .d_out = program.matrix(size_),
                                        .log_sums = program.floats(heads_),
                                        .sees = sees_,
                                        .dropout = dropout_};
  program.add(std::make_unique<FusedAttention>(program, attention));
  program.add(std::make_unique<FusedLinear>(
      program, ending(end, {.weights = {output_.weight()},
                            .biases = output_.biases(),
                            .in = {.values = attention.out, .gradient = attention.d_out},
                            .scale = static_cast<float>(output_scale_.value()),
                            .learned_scale = output_scale_.learned()})));
}

Bound Attention::bound(const Bound& in, Walk& walk) const {
  if (position_bias_) walk.norms.largest_entry(*position_bias_);  // free in the bound, but it must be finite
  const std::vector<UpperBound> v = head_norms(value_, walk);
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
  const std::vector<UpperBound> bias = head_biases(value_, walk);
  UpperBound squares = 0.0;  // of the largest values, in units of √d
  for (size_t h = 0; h < v.size(); ++h) {
    UpperBound value = v[h] * in.activation + bias[h] * root_of_ratio(1, size_);
    if (value_epsilon_) value = min(root_of_ratio(1, heads_), value * rms_slope(*value_epsilon_));
    value = value / scales[h];
    squares += value * value;
  }
  const Bound heads{.activation = sqrt(squares),
                    .lipschitz = stretch(in.activation, scales, walk) * in.lipschitz};
  const UpperBound offset =
      output_.bias() ? walk.norms.euclidean(*output_.bias()) * root_of_ratio(1, size_) : 0.0;
  return output_scale_.bound(heads, walk).affine(walk.norms.scaled_columns(output_.weight(), scales), offset);
}

}  // namespace bridle
