// Spectral hard cap, σ ↦ min(σ, σ_max): by the sign formula, by fixed polynomials, or by an exact
// decomposition.
#include <algorithm>
#include <array>

#include "constraint/cap_units.h"
#include "constraint/clip_by_sign.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

// What the signs are asked for, so that they do not end above the cap: their largest error below it.
double sign_target(double reach, double cap, int64_t n) {
  const auto excess = cap_by_sign_excess(reach, cap, n);
  return excess ? cap - 1.01 * *excess : cap;
}

class HardCap : public Constraint {
 public:
  explicit HardCap(const ConstraintOptions& options) : products_(options.product_dtype) {}
  const char* name() const override { return "hard_cap"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return sign_flop(blocks, 1, products_.value_or(blocks.scalar_type()));
  }
  bool needs_update_bound() const override { return true; }
  Guarantee promise(const Param& param, double sigma_max, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    const Tensor blocks = param.block_view();
    const int64_t n = std::min(blocks.size(1), blocks.size(2));
    const auto norm = invariant_norm(sigma_max, [&](double s) {
      const double reach = step.reach(s), target = sign_target(reach, sigma_max, n);
      const auto excess = cap_by_sign_excess(reach, target, n);
      return excess ? target + *excess : 2.0 * s;
    });
    if (!norm) return no_guarantee("the step is so large that the signs do not converge");
    return {norm, "the cap, which the sign polynomial's largest error keeps below"};
  }

 protected:
  Tensor project(const Task& task) override {
    const int64_t n = std::min(task.weight.size(-2), task.weight.size(-1));
    return cap_by_sign(task.weight, sign_target(task.reach, task.cap, n), products_);
  }

 private:
  std::optional<at::ScalarType> products_;
};

constexpr std::array<OddPolynomial, 4> kCapPolynomials = {{
    {0.805032, 0.206361, -0.019763},
    {0.649867, 0.162935, -0.011150},
    {1.810259, -0.200265, 0.008251},
    {1.004384, -0.183490, 0.014413},
}};
constexpr double kLargestInput = 4.0;      // in units of the cap
constexpr double kLargestOutput = 1.0109;  // sup of the composition on [0, 4]

class HardCapPolynomial : public Constraint {
 public:
  explicit HardCapPolynomial(const ConstraintOptions& options) : products_(options.product_dtype) {}
  const char* name() const override { return "hard_cap_polynomial"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return polynomial_flop(blocks, kCapPolynomials, products_.value_or(blocks.scalar_type()));
  }
  bool needs_update_bound() const override { return true; }
  Guarantee promise(const Param&, double sigma_max, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    return {kLargestOutput * sigma_max, "the polynomials' largest value"};
  }

 protected:
  Tensor project(const Task& task) override {
    // Beyond their range the polynomials blow up: a weight that a large step may have taken there is scaled back first.
    const double reach = kLargestOutput * task.reach / task.cap;
    const Tensor start = reach > kLargestInput ? task.weight.mul(kLargestInput / reach) : task.weight;
    return apply_in_units_of(task.cap, start, kCapPolynomials, products_);
  }

 private:
  std::optional<at::ScalarType> products_;
};

class HardCapSvd : public Constraint {
 public:
  const char* name() const override { return "hard_cap_svd"; }
  Guarantee promise(const Param&, double sigma_max, const StepInfo&) const override {
    return {sigma_max, "exact, for any update"};
  }

 protected:
  Tensor project(const Task& task) override { return cap_by_svd(task.weight, task.cap); }
};

}  // namespace

std::unique_ptr<Constraint> make_hard_cap(const ConstraintOptions& options) {
  return std::make_unique<HardCap>(options);
}

std::unique_ptr<Constraint> make_hard_cap_polynomial(const ConstraintOptions& options) {
  return std::make_unique<HardCapPolynomial>(options);
}

std::unique_ptr<Constraint> make_hard_cap_svd(const ConstraintOptions&) {
  return std::make_unique<HardCapSvd>();
}

}  // namespace bridle
