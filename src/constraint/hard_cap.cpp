// Spectral hard cap, σ ↦ min(σ, σ_max): by the sign formula, by fixed polynomials, or by an exact
// decomposition.
#include <algorithm>
#include <array>

#include "constraint/cap_by_gram.h"
#include "constraint/cap_units.h"
#include "constraint/clip_by_sign.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

class HardCap : public Constraint {
 public:
  explicit HardCap(const ConstraintOptions& options) : products_(options.product_dtype) {}
  const char* name() const override { return "hard_cap"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return multiplies_in(blocks.scalar_type())
               ? gram_cap_flop(blocks)
               : sign_flop(blocks, 1, products_.value_or(blocks.scalar_type()));
  }
  bool needs_update_bound() const override { return true; }
  Guarantee promise(const Param& param, double sigma_max, const StepInfo& step) const override {
    if (!step.has_update_bound()) return no_guarantee("the update's norm is not known");
    const Tensor blocks = param.block_view();
    const auto norm = invariant_norm(sigma_max, [&](double s) {
      const double reach = step.reach(s), target = target_of(blocks, reach, sigma_max);
      const auto above = excess(blocks, reach, target);
      return above ? target + *above : 2.0 * s;
    });
    if (!norm) return no_guarantee("the step is so large that the signs do not converge");
    return {norm, "the cap, which the sign polynomial's largest error keeps below"};
  }

 protected:
  Tensor project(const Task& task) override {
    const double target = target_of(task.weight, task.reach, task.cap);
    if (takes_gram(task.weight, task.reach, target)) {
      if (auto capped = cap_by_gram(task.weight, target, task.reach)) return *std::move(capped);
    }
    return cap_by_sign(task.weight, target, products_);
  }

 private:
  static int64_t side(const Tensor& blocks) { return std::min(blocks.size(-2), blocks.size(-1)); }
  bool multiplies_in(at::ScalarType dtype) const { return products_.value_or(dtype) == dtype; }

  // The Gram matrix of a weight that a step takes a little above the cap; bfloat16 would lose what is above.
  bool takes_gram(const Tensor& blocks, double reach, double cap) const {
    return multiplies_in(blocks.scalar_type()) && cap_by_gram_excess(reach, cap, side(blocks));
  }

  std::optional<double> excess(const Tensor& blocks, double reach, double cap) const {
    return takes_gram(blocks, reach, cap) ? cap_by_gram_excess(reach, cap, side(blocks))
                                          : cap_by_sign_excess(reach, cap, side(blocks));
  }

  // What the signs are asked for, so that they do not end above the cap: their largest error below it.
  double target_of(const Tensor& blocks, double reach, double cap) const {
    const auto above = excess(blocks, reach, cap);
    return above ? cap - 1.01 * *above : cap;
  }

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
