// Spectral clipping, σ ↦ clip(σ, α, σ_max), by the sign formula.
#include <fmt/format.h>

#include "bridle/error.h"
#include "constraint/clip_by_sign.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

class Clip : public Constraint {
 public:
  explicit Clip(const ConstraintOptions& options) : floor_(options.floor), products_(options.product_dtype) {}
  const char* name() const override { return "clip"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return sign_flop(blocks, 2, products_.value_or(blocks.scalar_type()));
  }
  Guarantee promise(const Param&, double, const StepInfo&) const override {
    return no_guarantee("the signs of singular values far below the Frobenius norm do not converge");
  }

 protected:
  Tensor project(const Task& task) override {
    const double floor = floor_ * task.unit;
    if (!(floor >= 0.0 && floor <= task.cap)) {
      throw InputError(name(), fmt::format("floor must be between 0 and sigma_max, got {} and {}", floor_,
                                           task.cap / task.unit));
    }
    return clip_by_sign(task.weight, floor, task.cap, products_);
  }

 private:
  double floor_;
  std::optional<at::ScalarType> products_;
};

}  // namespace

std::unique_ptr<Constraint> make_clip(const ConstraintOptions& options) {
  return std::make_unique<Clip>(options);
}

}  // namespace bridle
