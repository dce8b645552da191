#include "nn/quadrature_feed_forward.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>

#include <cmath>

#include "nn/dropout.h"
#include "nn/fused_linear.h"

namespace bridle {
namespace {

double root_of_width(const TransformerOptions& options) {
  return std::sqrt(static_cast<double>(options.intermediate_size) / static_cast<double>(options.hidden_size));
}

}  // namespace

QuadratureFeedForward::QuadratureFeedForward(const TransformerOptions& options, Weights& weights,
                                             const std::string& name)
    : size_(options.hidden_size),
      inner_(options.intermediate_size),
      dropout_(options.branch_dropout),
      drop_path_(options.drop_path),
      activation_(options.activation, options.activation_divisor * root_of_width(options)),
      up_(weights, name + ".up_proj",
          {.role = Role::mlp_up, .out = inner_, .in = size_, .bias = options.bias}),
      coefficients_(weights.vector(name + ".coefficients", Role::mixing_weight, {2}, std::sqrt(0.5))),
      output_(weights, name + ".down_proj",
              {.role = Role::mixing_output, .out = size_, .in = size_ + inner_, .fan_in = size_}) {}

// In training the two parts are apart: only what f gives is dropped.
at::Tensor QuadratureFeedForward::forward(const at::Tensor& x, Pass& pass) const {
  const at::Tensor c = coefficients_.tensor.to(x.scalar_type());
  const at::Tensor skip = x.mul(c[0]), fed = activation_.forward(up_.forward(x)).mul(c[1]);
  if (!pass.training) return output_.forward(at::cat({skip, fed}, -1));
  const at::Tensor m = output_.weight().tensor.to(x.scalar_type());
  const at::Tensor given = at::linear(fed, m.narrow(1, size_, inner_));
  return at::linear(skip, m.narrow(1, 0, size_))
      .add(drop_path(dropout(given, dropout_, pass), drop_path_, pass));
}

// Both parts, as vectors, move by at most their coefficients times the largest of the two stretches: z by |c| times it. The root in
// the divisor is rounded twice.
Bound QuadratureFeedForward::bound(const Bound& in, Walk& walk) const {
  const UpperBound longer = root_of_ratio(inner_, size_) * (1.0 + 0x1p-50);
  const Bound fed = activation_.bound(up_.bound(in, walk), inner_);
  const UpperBound gain = walk.norms.matrix(output_.weight()) * walk.norms.euclidean(coefficients_);
  return {.activation = gain * max(in.activation, fed.activation * longer),
          .lipschitz = gain * max(in.lipschitz, fed.lipschitz * longer)};
}

// Each part is multiplied by its coefficient, which is cast.
Enclosure QuadratureFeedForward::enclose(const Enclosure& x, ErrorWalk& walk) const {
  const Enclosure fed = activation_.enclose(up_.enclose(x, walk), walk);
  const int64_t dimensions = x.error.dim();
  const at::Tensor c = coefficients_.tensor.detach().to(at::kDouble);
  const auto both = [&](const at::Tensor& skip, const at::Tensor& active) {
    const double own = std::abs(c[0].item<double>()), other = std::abs(c[1].item<double>());
    return raised(skip.mul(own).square().add(active.mul(other).square()).sqrt());
  };
  const at::Tensor sizes = both(walk.size(x), walk.size(fed));
  const at::Tensor error =
      both(x.error, fed.error)
          .add(sizes.mul(walk.unit(dimensions).mul(4.0)))
          .add(walk.least(dimensions).mul(4.0 * std::sqrt(static_cast<double>(size_ + inner_))));
  const Enclosure z{at::cat({x.values.mul(c[0]), fed.values.mul(c[1])}, -1), both(x.reach, fed.reach),
                    walk.guarded(raised(error), sizes)};
  return output_.enclose(z, walk);
}

// M in two products: the skip's takes the stream's place, and that of f adds to it.
void QuadratureFeedForward::fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const {
  const FusedBuffer active = program.matrix(inner_), d_active = program.matrix(inner_),
                    slope = program.matrix(inner_);
  const auto part = [&](int64_t entry, const FusedValue& read, const FusedEnd& own) {
    return ending(own, {.weights = {output_.weight()},
                        .columns = {entry * size_, entry == 0 ? size_ : inner_},
                        .in = read,
                        .learned_scale = coefficients_,
                        .scale_entry = entry});
  };
  FusedValue skipped = in;  // its gradient is added to what f gives
  skipped.keep = {1.0F};
  FusedEnd first = end, second = end;
  first.keep = {0.0F};
  second.keep = {1.0F};
  second.dropout = dropout_;
  second.drop_path = drop_path_;
  program.add(std::make_unique<FusedLinear>(program, part(0, skipped, first)));
  program.add(std::make_unique<FusedLinear>(program, FusedLinearOptions{.weights = {up_.weight()},
                                                                        .biases = up_.biases(),
                                                                        .in = in,
                                                                        .out = active,
                                                                        .d_out = d_active,
                                                                        .slope = slope,
                                                                        .activation = activation_.kind(),
                                                                        .share = activation_.share()}));
  program.add(
      std::make_unique<FusedLinear>(program, part(1, activation_.fused(active, d_active, slope), second)));
}

}  // namespace bridle
