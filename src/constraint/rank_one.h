// The methods that see a weight through power iteration's leading triple (σ₁, u, v) share this base: it keeps
// the vectors between steps.
#pragma once

#include "bridle/constraint.h"

namespace bridle {

class PowerIterationConstraint : public Constraint {
 public:
  explicit PowerIterationConstraint(const ConstraintOptions& options)
      : rounds_(static_cast<int>(options.power_rounds)) {}
  bool may_overflow() const override { return false; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return {.all = 4.0 * static_cast<double>(blocks.numel()) * rounds_};
  }
  Tensor state() const override { return state_.right; }
  void set_state(const Tensor& state) override { state_.right = state; }

 protected:
  TopSingular top(const Tensor& weight) { return top_singular_estimate(weight, state_, rounds_); }

  // W + factor·u·vᵀ, factor [b].
  static Tensor add_rank_one(const Tensor& weight, const TopSingular& top, const Tensor& factor);

 private:
  PowerState state_;
  int rounds_;
};

}  // namespace bridle
