// convex: y = (1 − α)x + α·f(x), α fixed or learned;   plain: y = x + f(x), or x + α·f(x) with a learned α. A learned α is a number, or a
// vector with an entry for each of a token.
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
  bool keeps_all() const { return !convex_; }  // x stays as it is, whatever α is

 private:
  // The largest |1 − α| (or what else x is kept by) and |α| of any entry.
  struct Largest {
    double rest, share;
  };
  Largest largest(const NormSource::Entries& alpha) const;
  bool convex_;
  double alpha_;
  std::optional<Param> learned_;
};

}  // namespace bridle
