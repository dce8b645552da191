#include "nn/feed_forward.h"

#include <cmath>

#include "nn/fused_linear.h"

namespace bridle {
namespace {

LinearOptions layer(const TransformerOptions& options, Role role) {
  const bool down = role == Role::mlp_down;
  return {.role = role,
          .out = down ? options.hidden_size : options.intermediate_size,
          .in = down ? options.intermediate_size : options.hidden_size,
          .bias = options.bias};
}

}  // namespace

FeedForward::FeedForward(const TransformerOptions& options, Weights& weights, const std::string& name)
    : gate_(options.gated ? std::optional<Linear>(std::in_place, weights, name + ".gate_proj",
                                                  layer(options, Role::mlp_up))
                          : std::nullopt),
      up_(weights, name + ".up_proj", layer(options, Role::mlp_up)),
      down_(weights, name + ".down_proj", layer(options, Role::mlp_down)),
      activation_(options.activation, options.activation_divisor) {}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  if (gate_) return down_.forward(activation_.forward(gate_->forward(x)).mul(up_.forward(x)));
  return down_.forward(activation_.forward(up_.forward(x)));
}

namespace {

// The largest |entry| of Wx + b for any x of RMS norm a: |w_i·x| ≤ |w_i|·√n·a, and no entry is larger than its vector.
UpperBound largest_entry(const Linear& layer, const UpperBound& a, const UpperBound& rms, Walk& walk) {
  const int64_t rows = layer.weight().tensor.size(0), columns = layer.weight().tensor.size(1);
  const UpperBound by_row = walk.norms.largest_row_rms(layer.weight()) * static_cast<double>(columns) * a +
                            (layer.bias() ? walk.norms.largest_entry(*layer.bias()) : UpperBound(0.0));
  return min(by_row, sqrt(UpperBound(static_cast<double>(rows))) * rms);
}

}  // namespace

// f(g)/c ∘ u. Its change is f′(g)/c·dg ∘ u + f(g)/c ∘ du, and |f(g)| ≤ gain·|g| entry by entry.
Bound FeedForward::gated_bound(const Bound& in, Walk& walk) const {
  const int64_t size = up_.weight().tensor.size(0);
  const Bound before = gate_->bound(in, walk), u = up_.bound(in, walk);
  const UpperBound most_before = largest_entry(*gate_, in.activation, before.activation, walk);
  const UpperBound most_u = largest_entry(up_, in.activation, u.activation, walk);
  const Bound g = activation_.bound(before, size);
  const UpperBound most_g = activation_.largest_entry(most_before);
  return {.activation = min(most_u * g.activation, most_g * u.activation),
          .lipschitz = most_u * g.lipschitz + most_g * u.lipschitz};
}

Bound FeedForward::bound(const Bound& in, Walk& walk) const {
  if (gate_) return down_.bound(gated_bound(in, walk), walk);
  return down_.bound(activation_.bound(up_.bound(in, walk), up_.weight().tensor.size(0)), walk);
}

// Transformer's fused pass refuses a gate.
void FeedForward::fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const {
  const int64_t inner = up_.weight().tensor.size(0);
  const FusedBuffer active = program.matrix(inner), d_active = program.matrix(inner),
                    slope = program.matrix(inner);
  program.add(std::make_unique<FusedLinear>(program, FusedLinearOptions{.weights = {up_.weight()},
                                                                        .biases = up_.biases(),
                                                                        .in = in,
                                                                        .out = active,
                                                                        .d_out = d_active,
                                                                        .slope = slope,
                                                                        .activation = activation_.kind(),
                                                                        .share = activation_.share()}));
  program.add(std::make_unique<FusedLinear>(program,
                                            ending(end, {.weights = {down_.weight()},
                                                         .biases = down_.biases(),
                                                         .in = activation_.fused(active, d_active, slope)})));
}

namespace {

// a ∘ b: no entry is larger than its vector, so |a ∘ b| ≤ |a|·|b|, and so with what each is off.
Enclosure enclose_entrywise_product(const Enclosure& a, const Enclosure& b, const ErrorWalk& walk) {
  const int64_t dimensions = a.error.dim();
  const at::Tensor of_a = walk.size(a), of_b = walk.size(b), size = raised(of_a.mul(of_b));
  const double root = std::sqrt(static_cast<double>(a.values.size(-1)));
  const at::Tensor flushed = walk.least(dimensions).mul(root).mul(of_a.add(of_b).add(1.0));
  const at::Tensor error =
      a.error.mul(of_b).add(b.error.mul(of_a)).add(size.mul(walk.unit(dimensions)).mul(2.0)).add(flushed);
  const at::Tensor reach = a.reach.mul(of_b).add(b.reach.mul(of_a));
  return walk.stored(a.values.mul(b.values), raised(reach), walk.guarded(raised(error), size));
}

}  // namespace

Enclosure FeedForward::enclose(const Enclosure& x, ErrorWalk& walk) const {
  if (gate_)
    return down_.enclose(enclose_entrywise_product(activation_.enclose(gate_->enclose(x, walk), walk),
                                                   up_.enclose(x, walk), walk),
                         walk);
  return down_.enclose(activation_.enclose(up_.enclose(x, walk), walk), walk);
}

}  // namespace bridle
