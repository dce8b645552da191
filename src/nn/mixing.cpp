#include "nn/mixing.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "nn/dropout.h"
#include "nn/fused_linear.h"
#include "nn/fused_mixing.h"

namespace bridle {
namespace {

int64_t branches(const TransformerOptions& options) {
  return 1 + options.num_attention_heads + options.content_heads + (options.memory_channels > 0 ? 1 : 0);
}

LinearOptions output_layer(const TransformerOptions& options) {
  return {.role = Role::mixing_output,
          .out = options.hidden_size,
          .in = (1 + options.num_attention_heads + options.content_heads) * options.hidden_size +
                options.memory_channels,
          .fan_in = options.hidden_size};
}

}  // namespace

// Means of many tokens would begin alike: distances that differ are given. Channels forget at rates from e⁻⁷ to e⁻¹ per token.
Mixing::Mixing(const TransformerOptions& options, Weights& weights, const std::string& name, int64_t block)
    : heads_(options.num_attention_heads),
      size_(options.hidden_size),
      content_heads_(options.content_heads),
      channels_(options.memory_channels),
      sees_(visibility(options, block)),
      dropout_(options.dropout),
      position_bias_(weights.vector(name + ".position_bias", Role::position_bias,
                                    {heads_, options.position_bias_offsets}, 0.0)),
      coefficients_(weights.vector(name + ".coefficients", Role::mixing_weight, {branches(options)},
                                   1.0 / std::sqrt(static_cast<double>(branches(options))))),
      output_(weights, name + ".out_proj", output_layer(options)) {
  if (!weights.are_given()) start_positions_(position_bias_, options, block);
  if (content_heads_ > 0) content_.emplace(options, weights, name, block);
  if (channels_ == 0) return;
  memory_table_ = weights.table(name + ".memory_proj.weight", Role::memory, channels_, size_);
  log_decay_ = weights.vector(name + ".memory_log_decay", Role::memory_decay, {channels_}, 0.0);
  if (weights.are_given()) return;
  const at::NoGradGuard no_gradients;
  log_decay_->tensor.copy_(at::arange(channels_, log_decay_->tensor.options())
                               .mul(6.0 / static_cast<double>(std::max<int64_t>(1, channels_ - 1)))
                               .sub(7.2));
}

at::Tensor Mixing::head_weights(int64_t rows, int64_t length, const Pass& pass,
                                const at::Tensor& like) const {
  const at::Tensor bias = exact_enough(position_bias_.tensor, like);
  const at::Tensor seen = sees_.logits(rows, length, pass, bias.options().requires_grad(false));
  return at::softmax(biases_by_distance(bias, rows, length).add(seen), -1).to(like.scalar_type());
}

double Mixing::memory_scale() const {
  return 1.0 / std::sqrt(static_cast<double>(channels_) * static_cast<double>(size_));
}

at::Tensor Mixing::memory_inputs(const at::Tensor& x) const {
  return at::linear(x, memory_table_->tensor.to(x.scalar_type())).mul(memory_scale());
}

// m = cummax(v + λ·place) − λ·place; with documents token by token, as the definition has it. `before` is the maximum at the token
// before the first of these, [B, C], or undefined.
at::Tensor Mixing::memory(const at::Tensor& v, const at::Tensor& begins, int64_t first,
                          const at::Tensor& before) const {
  const at::Tensor decay =
      exact_enough(log_decay_->tensor, v).clamp_max(kLargestLogDecay).exp().to(v.scalar_type());
  const int64_t length = v.size(1);
  if (!begins.defined()) {
    const at::Tensor place =
        at::arange(length, v.options().requires_grad(false)).unsqueeze(1).mul(decay);  // [T, C]
    const at::Tensor most = std::get<0>(v.add(place).cummax(1)).sub(place);
    return before.defined() ? at::maximum(most, before.unsqueeze(1).sub(decay).sub(place)) : most;
  }
  std::vector<at::Tensor> all;
  at::Tensor most = before;
  for (int64_t t = 0; t < length; ++t) {
    const at::Tensor own = v.select(1, t);
    if (!most.defined()) {
      all.push_back(most = own);
      continue;
    }
    const at::Tensor fresh = begins.select(1, t).eq(first + t).unsqueeze(1);
    all.push_back(most = at::where(fresh, own, at::maximum(own, most.sub(decay))));
  }
  return at::stack(all, 1);
}

// c_k/ℓ(r_k): [K].
at::Tensor Mixing::content_gains(const at::Tensor& like) const {
  return exact_enough(coefficients_.tensor, like)
      .narrow(0, 1 + heads_, content_heads_)
      .div(content_->prices(like))
      .to(like.scalar_type());
}

at::Tensor Mixing::forward(const at::Tensor& x, Pass& pass, KeyValueCache::Layer* cache) const {
  const at::Tensor c = coefficients_.tensor.to(x.scalar_type());
  at::Tensor seen = x;  // [B, length, d]
  if (cache != nullptr && cache->keys.defined()) seen = at::cat({cache->keys, x}, 1);
  const at::Tensor weights = head_weights(x.size(1), seen.size(1), pass, x);
  const at::Tensor means = at::matmul(weights, seen.unsqueeze(1));  // [B, H, T, d]
  std::vector<at::Tensor> parts{x.mul(c[0])};
  for (int64_t h = 0; h < heads_; ++h) parts.push_back(means.select(1, h).mul(c[1 + h]));
  if (content_) {
    const at::Tensor read = content_->means(x, seen, pass, cache), gains = content_gains(x);
    for (int64_t k = 0; k < content_heads_; ++k) parts.push_back(read.select(1, k).mul(gains[k]));
  }
  if (channels_ > 0) {
    const at::Tensor most = memory(memory_inputs(x), pass.begins, seen.size(1) - x.size(1),
                                   cache == nullptr ? at::Tensor() : cache->values);
    if (cache != nullptr) cache->values = most.select(1, x.size(1) - 1);
    parts.push_back(most.mul(c[c.numel() - 1]));
  }
  if (cache != nullptr) cache->keys = seen;
  return output_.forward(dropout(at::cat(parts, -1), dropout_, pass));
}

// Every part of z_i moves by at most its coefficient times its own stretch times the largest move of a token, so z_i by |c| times the
// largest of these.
Bound Mixing::bound(const Bound& in, Walk& walk) const {
  walk.norms.largest_entry(position_bias_);  // free in the bound, but it must be finite
  UpperBound gain = 1.0;
  if (memory_table_) {
    walk.norms.largest_entry(*log_decay_);
    gain = max(gain, walk.norms.largest_row_rms(*memory_table_));
  }
  const UpperBound stretch = content_ ? max(gain, content_->stretch(in.activation, walk)) : gain;
  const UpperBound whole = walk.norms.matrix(output_.weight()) * walk.norms.euclidean(coefficients_);
  return {.activation = whole * gain * in.activation, .lipschitz = whole * stretch * in.lipschitz};
}

// Means are those of attention whose logits are exact; a maximum moves by at most what its arguments do, channel by channel.
Enclosure Mixing::enclose(const Enclosure& x, ErrorWalk& walk) const {
  const int64_t dimensions = x.error.dim(), tokens = x.values.size(1);
  const auto so_far = [](const at::Tensor& t) {
    return std::get<0>(t.cummax(-1));
  };  // over tokens up to each
  const at::Tensor unit = walk.unit(dimensions), least = walk.least(dimensions);
  const at::Tensor size = so_far(walk.size(x)), error = so_far(x.error), reach = so_far(x.reach);
  const double bias = position_bias_.tensor.detach().abs().max().item<double>();
  // exp, the sum, the quotient, what is stored, the largest logit's rounding, and the products with the tokens.
  const at::Tensor shares = walk.sum_error(tokens + 32, dimensions)
                                .add(unit.mul(2.0))
                                .add(walk.sum_unit(dimensions).mul(8.0 * bias))
                                .add(least.mul(static_cast<double>(tokens)));
  const at::Tensor products = walk.batched_sum_error(tokens + 4, dimensions).mul(2.0);
  at::Tensor mean_error = error.mul(shares.add(1.0)).add(size.mul(shares.mul(2.0).add(products)));
  mean_error = mean_error.add(least.mul(static_cast<double>(tokens * size_)));
  const at::Tensor c = coefficients_.tensor.detach().to(at::kDouble).abs();
  const auto square = [](const at::Tensor& t) { return t.square(); };
  const double heads = c.narrow(0, 1, heads_).square().sum().item<double>() * (1.0 + 0x1p-40);
  const double own = c[0].item<double>();
  at::Tensor reach_squares = square(x.reach.mul(own)).add(square(reach).mul(heads));
  at::Tensor error_squares = square(x.error.mul(own)).add(square(mean_error).mul(heads));
  at::Tensor sizes = square(walk.size(x).mul(own)).add(square(size).mul(heads));
  Enclosure read;
  if (content_) {
    read = content_->enclose(x, walk);
    const at::Tensor gains = content_gains(x.values).detach().abs().mul(1.0 + 0x1p-40);
    for (int64_t k = 0; k < content_heads_; ++k) {
      const double gain = gains[k].item<double>();
      // The price: an exponential, a square, a root, a sum and a quotient.
      const at::Tensor rounding = size.mul(walk.sum_unit(dimensions).mul(32.0));
      const at::Tensor off = read.error.select(2, k).add(rounding).mul(gain);
      reach_squares = reach_squares.add(square(read.reach.select(2, k).mul(gain)));
      error_squares = error_squares.add(square(off.add(walk.scalar_error(gain, dimensions))));
      sizes = sizes.add(square(size.mul(gain)));
    }
  }
  if (memory_table_) {
    const Enclosure product = enclose_product(x, *memory_table_, nullptr, 0, walk);
    const double scale = memory_scale() * (1.0 + 0x1p-40), root = std::sqrt(static_cast<double>(channels_));
    const double frobenius =
        raised(memory_table_->tensor.detach().to(at::kDouble).square().sum().sqrt()).item<double>() * scale;
    const double decay =
        std::exp(std::min(kLargestLogDecay, log_decay_->tensor.max().item<double>())) * (1.0 + 1e-6);
    const double farthest = decay * static_cast<double>(tokens + 1);
    const at::Tensor channel = so_far(walk.size(product)).mul(scale);  // no |v| of any channel is larger
    const at::Tensor rounding = channel.add(farthest).mul(unit.mul(32.0)).add(least.mul(16.0));
    const at::Tensor off = so_far(product.error).mul(scale).add(rounding).mul(root);
    const double weight = c[c.numel() - 1].item<double>();
    reach_squares = reach_squares.add(square(reach.mul(frobenius * weight)));
    error_squares = error_squares.add(square(off.mul(weight)));
    sizes = sizes.add(square(channel.add(farthest).mul(root * weight)));
  }
  // Each part is multiplied by its coefficient, which is cast.
  const at::Tensor stored = raised(sizes.sqrt());
  const at::Tensor all =
      raised(error_squares.sqrt())
          .add(stored.mul(unit.mul(4.0)))
          .add(least.mul(4.0 * std::sqrt(static_cast<double>(output_.weight().tensor.size(1)))));
  Pass pass{.dtype = at::kDouble, .begins = walk.begins};
  const at::Tensor cc = coefficients_.tensor.detach().to(at::kDouble);
  const at::Tensor means = at::matmul(head_weights(tokens, tokens, pass, x.values), x.values.unsqueeze(1));
  std::vector<at::Tensor> parts{x.values.mul(cc[0])};
  for (int64_t h = 0; h < heads_; ++h) parts.push_back(means.select(1, h).mul(cc[1 + h]));
  for (int64_t k = 0; k < content_heads_; ++k)
    parts.push_back(read.values.select(1, k).mul(content_gains(x.values)[k]));
  if (memory_table_)
    parts.push_back(memory(memory_inputs(x.values), walk.begins, 0, {}).mul(cc[cc.numel() - 1]));
  const Enclosure z{at::cat(parts, -1), raised(reach_squares.sqrt()), walk.guarded(raised(all), stored)};
  return output_.enclose(z, walk);
}

void Mixing::fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const {
  const int64_t width = output_.weight().tensor.size(1);
  FusedMixingOptions mixing{.position_bias = position_bias_,
                            .coefficients = coefficients_,
                            .log_decay = log_decay_,
                            .size = size_,
                            .sees = sees_,
                            .dropout = dropout_,
                            .in = in,
                            .out = program.matrix(width),
                            .d_out = program.matrix(width)};
  if (memory_table_) {
    mixing.memory = program.matrix(channels_);
    mixing.d_memory = program.matrix(channels_);
    FusedValue read = in;  // its gradient is added to what the heads give
    read.keep = {1.0F};
    program.add(
        std::make_unique<FusedLinear>(program, FusedLinearOptions{.weights = {*memory_table_},
                                                                  .left = FusedWeight::Left::out,
                                                                  .in = read,
                                                                  .scale = static_cast<float>(memory_scale()),
                                                                  .out = mixing.memory,
                                                                  .d_out = mixing.d_memory}));
  }
  if (content_)
    content_->fuse(
        program, in,
        {.coefficients = coefficients_, .first = 1 + heads_, .out = mixing.out, .d_out = mixing.d_out});
  program.add(std::make_unique<FusedMixing>(program, mixing));
  program.add(std::make_unique<FusedLinear>(
      program,
      ending(end, {.weights = {output_.weight()}, .in = {.values = mixing.out, .gradient = mixing.d_out}})));
}

}  // namespace bridle
