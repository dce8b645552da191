// Spectral hammer, W ← W + (σ_max − σ₁)u₁v₁ᵀ: sets the top singular value to the cap, up or down. A zero
// matrix has no singular vectors and stays zero.
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/rank_one.h"

namespace bridle {
namespace {

class Hammer : public PowerIterationConstraint {
 public:
  using PowerIterationConstraint::PowerIterationConstraint;
  const char* name() const override { return "hammer"; }
  Guarantee promise(const Param&, double, const StepInfo&) const override {
    return no_guarantee("one singular value is set a step, and an update may raise many");
  }

 protected:
  Tensor project(const Task& task) override {
    const TopSingular leading = top(task.weight);
    return add_rank_one(task.weight, leading, leading.sigma.neg().add(task.cap));
  }
};

}  // namespace

std::unique_ptr<Constraint> make_hammer(const ConstraintOptions& options) {
  return std::make_unique<Hammer>(options);
}

}  // namespace bridle
