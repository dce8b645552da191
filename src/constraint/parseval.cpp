// Parseval's polynomial, x ↦ (1 + β)x − βx³ in units of the cap: pulls every singular value towards the cap.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "bridle/error.h"
#include "constraint/cap_units.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

class Parseval : public Constraint {
 public:
  explicit Parseval(const ConstraintOptions& options)
      : strength_(options.parseval_strength), products_(options.product_dtype) {
    if (!(strength_ > 0.0 && strength_ <= 0.5)) {
      throw InputError("parseval",
                       fmt::format("parseval_strength must be above 0 and at most 0.5, got {}", strength_));
    }
  }
  const char* name() const override { return "parseval"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    const std::array<OddPolynomial, 1> steps = {polynomial()};
    return polynomial_flop(blocks, steps, products_.value_or(blocks.scalar_type()));
  }
  Guarantee promise(const Param&, double sigma_max, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    const OddPolynomial p = polynomial();
    const double peak = std::sqrt((1.0 + strength_) / (3.0 * strength_));  // p grows up to here
    const auto norm = invariant_norm(sigma_max, [&](double s) {
      const double reach = step.reach(s) / sigma_max;
      return reach <= peak ? sigma_max * p(reach) : 2.0 * s;
    });
    if (!norm) return no_guarantee("the step reaches beyond the polynomial's peak");
    return {norm, "the level where the polynomial takes off what a step adds"};
  }

 protected:
  Tensor project(const Task& task) override {
    const std::array<OddPolynomial, 1> steps = {polynomial()};
    return apply_in_units_of(task.cap, task.weight, steps, products_);
  }

 private:
  OddPolynomial polynomial() const { return {1.0 + strength_, -strength_, 0.0}; }

  double strength_;
  std::optional<at::ScalarType> products_;
};

}  // namespace

std::unique_ptr<Constraint> make_parseval(const ConstraintOptions& options) {
  return std::make_unique<Parseval>(options);
}

}  // namespace bridle
