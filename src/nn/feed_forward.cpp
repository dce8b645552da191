#include "nn/feed_forward.h"

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
  return down_.bound(activation_.bound(up_.bound(in, walk)), walk);
}

Enclosure FeedForward::enclose(const Enclosure& x, ErrorWalk& walk) const {
  return down_.enclose(activation_.enclose(up_.enclose(x, walk), walk), walk);
}

}  // namespace bridle
