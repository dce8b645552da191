#include "nn/content_heads.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "nn/fused_content.h"
#include "nn/fused_linear.h"

namespace bridle {
namespace {

constexpr double kShortest = 8.0;  // tokens after which the first head's weights begin smaller by e
constexpr double kLonger = 4.0;    // so many times as long, the next one's

LinearOptions projection(const TransformerOptions& options, Role role) {
  return {.role = role,
          .out = options.content_heads * options.content_size,
          .in = options.hidden_size,
          .heads = options.content_heads,
          .apart = true};
}

// −(distance)/(8·4^k).
void start_decays_(const Param& position_bias) {
  const at::NoGradGuard no_gradients;
  double length = kShortest;
  for (int64_t head = 0; head < position_bias.tensor.size(0); ++head, length *= kLonger)
    position_bias.tensor[head].copy_(
        at::arange(position_bias.tensor.size(1), at::TensorOptions(at::kDouble)).div(-length));
}

}  // namespace

at::Tensor exact_enough(const at::Tensor& weight, const at::Tensor& x) {
  return weight.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

ContentHeads::ContentHeads(const TransformerOptions& options, Weights& weights, const std::string& name,
                           int64_t block)
    : heads_(options.content_heads),
      size_(options.hidden_size),
      content_size_(options.content_size),
      sees_(visibility(options, block)),
      query_(weights, name + ".content_q_proj", projection(options, Role::content_query)),
      key_(weights, name + ".content_k_proj", projection(options, Role::content_key)),
      position_bias_(weights.vector(name + ".content_position_bias", Role::position_bias,
                                    {heads_, options.position_bias_offsets}, 0.0)),
      log_range_(weights.vector(name + ".content_log_range", Role::content_range, {heads_}, 0.0)) {
  if (!weights.are_given()) start_decays_(position_bias_);
}

at::Tensor ContentHeads::split(const at::Tensor& x) const {
  return x.view({x.size(0), x.size(1), heads_, content_size_}).transpose(1, 2);
}

at::Tensor ContentHeads::logit_scales(const at::Tensor& like) const {
  return exact_enough(log_range_.tensor, like)
      .clamp_max(kLargestLogRange)
      .exp()
      .div(static_cast<double>(content_size_));
}

at::Tensor ContentHeads::prices(const at::Tensor& like) const {
  const at::Tensor range = exact_enough(log_range_.tensor, like).clamp_max(kLargestLogRange).exp();
  return range.square().add(1.0).sqrt().add(range);
}

at::Tensor ContentHeads::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& seen,
                                const Pass& pass) const {
  const int64_t rows = q.size(2), length = k.size(2);
  const at::Tensor scales = logit_scales(q).to(q.scalar_type()).view({-1, 1, 1});
  const at::Tensor bias = exact_enough(position_bias_.tensor, q);
  const at::Tensor mask = sees_.logits(rows, length, pass, bias.options().requires_grad(false));
  const at::Tensor logits = at::matmul(q.mul(scales), k.transpose(2, 3))
                                .to(bias.scalar_type())
                                .add(biases_by_distance(bias, rows, length))
                                .add(mask);  // [B, K, T, length]
  return at::matmul(at::softmax(logits, -1).to(q.scalar_type()), seen.unsqueeze(1));
}

at::Tensor ContentHeads::means(const at::Tensor& x, const at::Tensor& seen, const Pass& pass,
                               KeyValueCache::Layer* cache) const {
  at::Tensor k = split(key_.forward(x));
  if (cache != nullptr) {
    if (cache->content_keys.defined()) k = at::cat({cache->content_keys, k}, 2);
    cache->content_keys = k;
  }
  return attend(split(query_.forward(x)), k, seen, pass);
}

// On tokens with |x| ≤ R = √d·a content moves a logit by at most M = r·P, P = ‖Q_k‖‖K_k‖a². The mean is stretched by at most ℓ(M),
// which is at most max(1, P)·ℓ(r).
UpperBound ContentHeads::stretch(const UpperBound& activation, Walk& walk) const {
  walk.norms.largest_entry(position_bias_);  // free in the bound, but it must be finite
  walk.norms.largest_entry(log_range_);
  const std::vector<UpperBound> q = walk.norms.heads(query_.weight(), heads_);
  const std::vector<UpperBound> k = walk.norms.heads(key_.weight(), heads_);
  UpperBound largest = 0.0;
  for (size_t h = 0; h < q.size(); ++h) largest = max(largest, q[h] * k[h]);
  const UpperBound unit = UpperBound(static_cast<double>(size_)) / static_cast<double>(content_size_);
  return max(1.0, largest * unit * activation * activation);
}

// Attention's (statement 6 of docs/theory/forward_error.md), with tokens for values and a range for each head.
Enclosure ContentHeads::enclose(const Enclosure& x, ErrorWalk& walk) const {
  const Enclosure q = query_.enclose_heads(x, heads_, walk), k = key_.enclose_heads(x, heads_, walk);
  const auto so_far = [](const at::Tensor& t) {
    return std::get<0>(t.cummax(-1));
  };  // over tokens up to each
  const int64_t dimensions = q.error.dim(), tokens = x.values.size(1);
  const auto per_head = [](const at::Tensor& t) { return t.view({1, 1, -1, 1}); };
  const at::Tensor q_size = walk.size(q), k_size = so_far(walk.size(k));
  const at::Tensor size = so_far(walk.size(x)).unsqueeze(2);
  const at::Tensor exact = logit_scales(x.values.detach()).detach();
  const at::Tensor scale = per_head(exact.mul(1.0 + 0x1p-40));
  const auto moved = [&](const at::Tensor& of_q, const at::Tensor& of_k) {
    return of_q.mul(k_size).add(q_size.mul(so_far(of_k))).mul(scale);
  };
  const at::Tensor unit = walk.unit(dimensions), sum_unit = walk.sum_unit(dimensions);
  const at::Tensor bias = per_head(position_bias_.tensor.detach().to(at::kDouble).abs().amax(1));
  const at::Tensor content = q_size.mul(k_size).mul(scale), logits = raised(content.add(bias));
  // The sum; the range's exponential and its quotient; what is stored.
  const at::Tensor products = walk.batched_sum_error(content_size_ + 6, dimensions)
                                  .mul(2.0)
                                  .add(unit.mul(6.0))
                                  .add(sum_unit.mul(16.0));
  const at::Tensor rounding = content.mul(products).add(logits.mul(unit.mul(4.0).add(sum_unit.mul(4.0))));
  const at::Tensor flushed =
      k_size.add(q_size.mul(scale)).mul(std::sqrt(static_cast<double>(content_size_))).add(1e3);
  const at::Tensor off =
      raised(moved(q.error, k.error).add(rounding).add(flushed.mul(walk.least(dimensions))));
  const at::Tensor shares = walk.sum_error(tokens + 32, dimensions)
                                .add(unit)
                                .add(walk.least(dimensions).mul(static_cast<double>(tokens)));
  const at::Tensor weights = off.clamp_max(2.0).add(shares.mul(2.0));
  const at::Tensor error =
      so_far(x.error)
          .unsqueeze(2)
          .mul(shares.add(1.0))
          .add(size.mul(weights.add(walk.batched_sum_error(tokens + 4, dimensions).mul(2.0))))
          .add(walk.least(dimensions).mul(static_cast<double>(tokens * size_)));
  const at::Tensor reach = so_far(x.reach).unsqueeze(2).add(size.mul(moved(q.reach, k.reach).clamp_max(2.0)));
  // The program multiplies masked tokens too, by zero, so that one of them that overflows spoils every row.
  const auto of_all = [](const at::Tensor& t) { return t.amax(-1, /*keepdim=*/true); };
  const at::Tensor largest = raised(q_size.mul(of_all(k_size)).mul(scale).add(q_size.mul(scale)).add(bias));
  at::Tensor known = walk.guarded(walk.guarded(raised(error), largest), of_all(size).expand_as(error));
  std::vector<at::Tensor> unknown;  // a range that a program has not as a normal number
  for (int64_t head = 0; head < heads_; ++head)
    unknown.push_back(walk.scalar_error(exact[head].item<double>(), dimensions));
  known =
      known.add(at::cat(unknown, 2)).masked_fill(products.isinf(), std::numeric_limits<double>::infinity());
  const Pass pass{.dtype = at::kDouble, .begins = walk.begins};
  return walk.stored(attend(q.values, k.values, x.values, pass), raised(reach), known);
}

void ContentHeads::fuse(FusedProgram& program, const FusedValue& in, const ContentEnd& end) const {
  const int64_t width = heads_ * content_size_;
  FusedContentOptions content{.position_bias = position_bias_,
                              .log_range = log_range_,
                              .coefficients = end.coefficients,
                              .first = end.first,
                              .size = size_,
                              .content_size = content_size_,
                              .sees = sees_,
                              .in = in,
                              .qk = program.matrix(2 * width),
                              .d_qk = program.matrix(2 * width),
                              .out = end.out,
                              .d_out = end.d_out,
                              .log_sums = program.floats(heads_)};
  content.in.keep = {1.0F};  // its gradient is added to what others give
  program.add(
      std::make_unique<FusedLinear>(program, FusedLinearOptions{.weights = {query_.weight(), key_.weight()},
                                                                .in = content.in,
                                                                .out = content.qk,
                                                                .d_out = content.d_qk}));
  program.add(std::make_unique<FusedContent>(program, content));
}

}  // namespace bridle
