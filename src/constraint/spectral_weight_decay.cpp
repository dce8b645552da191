// Spectral weight decay, W ← W − λσ₁u₁v₁ᵀ: decays the top singular value only. λ is not multiplied by η.
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/rank_one.h"

namespace bridle {
namespace {

class SpectralWeightDecay : public PowerIterationConstraint {
 public:
  explicit SpectralWeightDecay(const ConstraintOptions& options)
      : PowerIterationConstraint(options), decay_(options.spectral_decay) {}
  const char* name() const override { return "spectral_weight_decay"; }
  bool uses_cap() const override { return false; }
  Guarantee promise(const Param&, double, const StepInfo&) const override {
    return no_guarantee("one singular value is lowered a step, and an update may raise many");
  }

 protected:
  Tensor project(const Task& task) override {
    const TopSingular leading = top(task.weight);
    return add_rank_one(task.weight, leading, leading.sigma.mul(-decay_));
  }

 private:
  double decay_;
};

}  // namespace

std::unique_ptr<Constraint> make_spectral_weight_decay(const ConstraintOptions& options) {
  return std::make_unique<SpectralWeightDecay>(options);
}

}  // namespace bridle
