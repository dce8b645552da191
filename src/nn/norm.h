// What may stand where the paper has no norm: nothing, tanh, RMSNorm, LayerNorm. With ε > 0 the last two are
// max|g|/√ε-Lipschitz in the RMS norm, and unbounded with ε = 0.
#pragma once

#include <optional>
#include <string>

#include "nn/enclosure.h"
#include "nn/weights.h"

namespace bridle {

class Norm {
 public:
  Norm(const TransformerOptions& options, Weights& weights, const std::string& name);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;

 private:
  NormLayer kind_;
  double epsilon_;
  int64_t size_;
  std::optional<Param> gain_;
  std::optional<Param> bias_;
};

}  // namespace bridle
