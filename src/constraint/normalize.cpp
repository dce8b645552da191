// Spectral normalisation, W ← W / max(1, σ₁/σ_max). By a verified bound from above it guarantees the cap for
// any update; by power iteration, as the paper has it, σ₁ is read too small and nothing is guaranteed.
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "bridle/error.h"
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/rank_one.h"

namespace bridle {
namespace {

// Of the bound over the norm: costs as much of the cap, and saves most of the time.
constexpr double kExcess = 1e-3;

// A weight at its cap grows in a step by about as much as in the last one. That it has grown by no more than a little more is quickly
// proved, and it is divided by that. What is tried sinks, faster and faster, until the proof fails and the norm itself is looked for
// again: nothing is shrunk for long that no longer grows, and a weight inside its cap is soon tried at the cap alone.
constexpr double kRoom = 1.1, kFirstSink = 0.93;
constexpr double kMostGrowth = 0.1;  // beyond, it was no usual step: a first one, or a cap that has moved

class NormalizeByBound : public Constraint {
 public:
  const char* name() const override { return "normalize"; }
  Guarantee promise(const Param&, double sigma_max, const StepInfo&) const override {
    return {sigma_max, "divided by a bound from above"};
  }
  Tensor state() const override { return growth_.defined() ? growth_.clone() : growth_; }
  void set_state(const Tensor& state) override {
    const bool ours = state.dim() == 2 && state.size(1) == 2 && state.min().item<double>() >= 0.0 &&
                      state.max().item<double>() <= 1.0;
    growth_ = ours ? state.to(at::kDouble).clone() : Tensor();
  }

 protected:
  Tensor project(const Task& task) override {
    const bool batched = task.weight.dim() == 3;
    const int64_t matrices = batched ? task.weight.size(0) : 1;
    if (!growth_.defined() || growth_.size(0) != matrices) growth_ = at::zeros({matrices, 2}, at::kDouble);
    auto growth = growth_.accessor<double, 2>();  // as a share of the cap, and by what it sinks next
    std::vector<double> tried, factors;
    for (int64_t i = 0; i < matrices; ++i) tried.push_back(task.cap * (1 + growth[i][0]));
    const auto bounds = spectral_norm_bounds(task.weight, {.excess = kExcess, .try_first = tried});
    for (int64_t i = 0; i < matrices; ++i) {
      const auto& found = bounds[static_cast<size_t>(i)];
      if (!found) throw NumericError(name(), "no bound of the norm could be established");
      const double bound = found->value.to_double();
      factors.push_back(std::min(1.0, task.cap / bound));
      if (bound != tried[static_cast<size_t>(i)]) {
        const double grown = bound / task.cap - 1;
        growth[i][0] = grown > 0.0 && grown < kMostGrowth ? grown * kRoom : 0.0;
        growth[i][1] = kFirstSink;
      } else {
        growth[i][0] = growth[i][0] < kExcess ? 0.0 : growth[i][0] * growth[i][1];
        growth[i][1] *= growth[i][1];
      }
    }
    if (std::all_of(factors.begin(), factors.end(), [](double f) { return f == 1.0; })) return task.weight;
    if (!batched) return task.weight.mul(factors.front());
    const auto options = task.weight.options().dtype(at::kDouble);
    return task.weight.mul(at::tensor(factors, options).view({-1, 1, 1})).to(task.weight.scalar_type());
  }

 private:
  Tensor growth_;  // [matrices, 2]
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
