// See soft_cap.h. With u = αk², the composition takes k to k(1 − u²(3 − 3u + u²)) and grows up to there as
// long as u ≤ 1/3, so its largest value on [0, k] is that one: α is the solution of u²(3 − 3u + u²) = 1 −
// σ_max/k, for k ≤ (81/62)·σ_max. Beyond, the weight is first scaled to that size.
#include "constraint/soft_cap.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "constraint/cap_units.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

constexpr double kLargestReach = 81.0 / 62.0;

// The least u in [0, 1/3], rounded up, with u²(3 − 3u + u²) ≥ loss.
double solve_strength(double loss) {
  double low = 0.0, high = 1.0 / 3.0;
  while (std::nextafter(low, high) < high) {
    const double u = low + (high - low) / 2;
    (u * u * (3.0 - 3.0 * u + u * u) < loss ? low : high) = u;
  }
  return high;
}

class SoftCap : public Constraint {
 public:
  explicit SoftCap(const ConstraintOptions& options) : products_(options.product_dtype) {}
  const char* name() const override { return "soft_cap"; }
  bool needs_update_bound() const override { return true; }
  // W·(1 ∓ αWᵀW) twice: each time αk² of it is a product.
  double product_share(double reach) const override {
    return std::isfinite(reach) ? std::min(1.0, 3.0 * soft_cap_coupling(reach).alpha * reach * reach) : 1.0;
  }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    const std::array<OddPolynomial, 2> steps = {{{1.0, -1.0, 0.0}, {1.0, 1.0, 0.0}}};
    return polynomial_flop(blocks, steps, products_.value_or(blocks.scalar_type()));
  }
  Guarantee promise(const Param&, double sigma_max, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    return {sigma_max, "the strength is coupled to the largest norm that the step can reach"};
  }

 protected:
  Tensor project(const Task& task) override {
    const SoftCapCoupling coupling = soft_cap_coupling(task.reach / task.cap);
    if (coupling.alpha == 0.0) return task.weight;
    const double alpha = coupling.alpha;
    const Tensor start = coupling.shrink < 1.0 ? task.weight.mul(coupling.shrink) : task.weight;
    const std::array<OddPolynomial, 2> steps = {{{1.0, -alpha, 0.0}, {1.0, alpha, 0.0}}};
    return apply_in_units_of(task.cap, start, steps, products_);
  }

 private:
  std::optional<at::ScalarType> products_;
};

}  // namespace

SoftCapCoupling soft_cap_coupling(double reach) {
  if (reach <= 1.0) return {1.0, 0.0};
  if (reach >= kLargestReach) return {kLargestReach / reach, 1.0 / (3.0 * kLargestReach * kLargestReach)};
  const double u = solve_strength((reach - 1.0) / reach);
  return {1.0, u / (reach * reach)};
}

std::unique_ptr<Constraint> make_soft_cap(const ConstraintOptions& options) {
  return std::make_unique<SoftCap>(options);
}

}  // namespace bridle
