// convex: y = (1 − α)x + α·f(x), α fixed or learned;   plain: y = x + f(x).
#pragma once

#include <optional>
#include <string>

#include "bridle/architecture.h"
#include "nn/enclosure.h"
#include "nn/fused_program.h"
#include "nn/weights.h"

namespace bridle {

bool is_convex(ResidualKind kind);

class Residual {
 public:
  // `name` of the learned α.
  Residual(const TransformerOptions& options, Weights& weights, const std::string& name, double alpha);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& branch) const;
  Bound bound(const Bound& x, const Bound& branch, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, const Enclosure& branch, const ErrorWalk& walk) const;

  // y = keep·x + share·f(x), as the fused pass has it.
  FusedNumber keep(FusedProgram& program) const;
  FusedNumber share(FusedProgram& program) const;
  const std::optional<Param>& learned() const { return learned_; }

 private:
  double alpha() const;
  bool convex_;
  double alpha_;
  std::optional<Param> learned_;
};

}  // namespace bridle
