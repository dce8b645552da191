// y = W_down · f(W_up · x)/divisor, f GeLU as a rule.
#pragma once

#include "nn/activation.h"
#include "nn/linear.h"

namespace bridle {

class FeedForward {
 public:
  FeedForward(const TransformerOptions& options, Weights& weights, const std::string& name);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;

 private:
  Linear up_;
  Linear down_;
  Activation activation_;
};

}  // namespace bridle
