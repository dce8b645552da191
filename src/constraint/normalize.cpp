// Spectral normalisation, W ← W / max(1, σ₁/σ_max). By a verified bound from above it guarantees the cap for
// any update; by power iteration, as the paper has it, σ₁ is read too small and nothing is guaranteed.
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "bridle/error.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"
#include "constraint/rank_one.h"

namespace bridle {
namespace {

// Of the bound over the norm: costs as much of the cap, and saves most of the time.
constexpr double kExcess = 1e-4;
constexpr double kNear = 10 * kExcess;  // a bound so little above the cap may belong to a norm inside it

class NormalizeByBound : public Constraint {
 public:
  const char* name() const override { return "normalize"; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return {.all = BlockSides(blocks).proof()};
  }
  Guarantee promise(const Param&, double sigma_max, const StepInfo&) const override {
    return {sigma_max, "divided by a bound from above"};
  }

 protected:
  Tensor project(const Task& task) override {
    const bool batched = task.weight.dim() == 3;
    const auto matrices = static_cast<size_t>(batched ? task.weight.size(0) : 1);
    outside_.resize(matrices, false);
    std::vector<double> tried, factors;
    for (size_t i = 0; i < matrices; ++i) tried.push_back(outside_[i] ? 0.0 : task.cap);
    const auto bounds = spectral_norm_bounds(task.weight, {.excess = kExcess, .try_first = tried});
    for (size_t i = 0; i < matrices; ++i) {
      if (!bounds[i]) throw NumericError(name(), "no bound of the norm could be established");
      double bound = bounds[i]->value.to_double();
      const bool unclear = outside_[i] && bound > task.cap && bound <= task.cap * (1 + kNear);
      if (unclear &&
          prove_spectral_norm(batched ? task.weight[static_cast<int64_t>(i)] : task.weight, task.cap))
        bound = task.cap;
      factors.push_back(std::min(1.0, task.cap / bound));
      outside_[i] = bound > task.cap;
    }
    if (std::all_of(factors.begin(), factors.end(), [](double f) { return f == 1.0; })) return task.weight;
    if (!batched) return task.weight.mul(factors.front());
    const auto options = task.weight.options().dtype(at::kDouble);
    return task.weight.mul(at::tensor(factors, options).view({-1, 1, 1})).to(task.weight.scalar_type());
  }

 private:
  // Which matrices the last step left outside their cap. That the others are inside is proved in a fraction of the time that their norm
  // takes; for these it would mostly be a waste. No result depends on it: training goes on the same without it.
  std::vector<bool> outside_;
};

class NormalizeByEstimate : public PowerIterationConstraint {
 public:
  using PowerIterationConstraint::PowerIterationConstraint;
  const char* name() const override { return "normalize_estimate"; }
  Guarantee promise(const Param&, double, const StepInfo&) const override {
    return no_guarantee("power iteration reads the norm from below");
  }

 protected:
  Tensor project(const Task& task) override {
    const Tensor divisor = top(task.weight).sigma.div(task.cap).clamp_min(1.0);
    if (task.weight.dim() == 2) return task.weight.div(divisor.squeeze(0)).to(task.weight.scalar_type());
    return task.weight.div(divisor.view({-1, 1, 1})).to(task.weight.scalar_type());
  }
};

}  // namespace

std::unique_ptr<Constraint> make_normalize_by_bound(const ConstraintOptions&) {
  return std::make_unique<NormalizeByBound>();
}

std::unique_ptr<Constraint> make_normalize_by_estimate(const ConstraintOptions& options) {
  return std::make_unique<NormalizeByEstimate>(options);
}

}  // namespace bridle
