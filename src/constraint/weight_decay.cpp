// Weight decay, W ← (1 − λη)W: done once, in the optimizer, before the update. What is left to say here is
// what it guarantees: s(1 − λη) + bη ≤ s for s ≥ b/λ.
#include "constraint/guarantee.h"
#include "constraint/methods.h"

namespace bridle {
namespace {

class WeightDecay : public Constraint {
 public:
  const char* name() const override { return "weight_decay"; }
  bool uses_cap() const override { return false; }
  Guarantee promise(const Param&, double, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    if (!(step.decay > 0.0)) return no_guarantee("there is no decay");
    if (step.decay * step.learning_rate > 1.0) return no_guarantee("decay times learning rate is above 1");
    return {step.update_bound / step.decay, "update and decay balance at b/λ"};
  }

 protected:
  Tensor project(const Task& task) override { return task.weight; }
};

}  // namespace

std::unique_ptr<Constraint> make_weight_decay(const ConstraintOptions&) {
  return std::make_unique<WeightDecay>();
}

}  // namespace bridle
