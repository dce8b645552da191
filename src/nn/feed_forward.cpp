#include "nn/feed_forward.h"

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
    : up_(weights, name + ".up_proj", layer(options, Role::mlp_up)),
      down_(weights, name + ".down_proj", layer(options, Role::mlp_down)),
      activation_(options.activation, options.activation_divisor) {}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  return down_.forward(activation_.forward(up_.forward(x)));
}

Bound FeedForward::bound(const Bound& in, Walk& walk) const {
  return down_.bound(activation_.bound(up_.bound(in, walk), up_.weight().tensor.size(0)), walk);
}

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

Enclosure FeedForward::enclose(const Enclosure& x, ErrorWalk& walk) const {
  return down_.enclose(activation_.enclose(up_.enclose(x, walk), walk), walk);
}

}  // namespace bridle
