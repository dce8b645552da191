// Spectrally clipped weight decay, W ← (1 − λ)W + λ·cap(W): decays only what stands above the cap. Its
// equilibrium is σ_max + (1 − λ)/λ·bη.
#include <fmt/format.h>

#include "bridle/error.h"
#include "constraint/clip_by_sign.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

class ClippedWeightDecay : public Constraint {
 public:
  explicit ClippedWeightDecay(const ConstraintOptions& options)
      : decay_(options.clip_decay), products_(options.product_dtype) {
    if (!(decay_ > 0.0 && decay_ <= 1.0)) {
      throw InputError("clipped_weight_decay",
                       fmt::format("clip_decay must be above 0 and at most 1, got {}", decay_));
    }
  }
  const char* name() const override { return "clipped_weight_decay"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return sign_flop(blocks, 1, products_.value_or(blocks.scalar_type()));
  }
  Guarantee promise(const Param& param, double sigma_max, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    const Tensor blocks = param.block_view();
    const int64_t n = std::min(blocks.size(1), blocks.size(2));
    const auto norm = invariant_norm(sigma_max, [&](double s) {
      const double reach = step.reach(s);
      const auto excess = cap_by_sign_excess(reach, sigma_max, n);
      return excess ? (1.0 - decay_) * reach + decay_ * (sigma_max + *excess) : 2.0 * s;
    });
    if (!norm) return no_guarantee("the equilibrium is so far above the cap that the signs do not converge");
    return {norm, "the equilibrium σ_max + (1 − λ)/λ·bη, and the sign polynomial's largest error"};
  }

 protected:
  Tensor project(const Task& task) override {
    return cap_by_sign(task.weight, task.cap, products_).lerp_(task.weight, 1.0 - decay_);
  }

 private:
  double decay_;
  std::optional<at::ScalarType> products_;
};

}  // namespace

std::unique_ptr<Constraint> make_clipped_weight_decay(const ConstraintOptions& options) {
  return std::make_unique<ClippedWeightDecay>(options);
}

}  // namespace bridle
