#include "certify/budget.h"

#include <ATen/ops/dot.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/linalg.h"
#include "certify/cap_norms.h"

namespace bridle {
namespace {

constexpr double kLeastCap = 1e-4;
constexpr double kLargestCap = 1e4;
constexpr double kLeastCost = 1e-3;  // a weight that costs less is taken to cost this much

// The largest x in [low, high] for which `fits` holds, if it holds up to some x; `low` fits.
template <class Fits>
double largest_that_fits(double low, double high, const Fits& fits) {
  if (fits(high)) return high;
  for (int i = 0; i < 100 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

double inner_product(const at::Tensor& a, const at::Tensor& b) {
  return at::dot(a.detach().reshape({-1}), b.detach().reshape({-1}).to(a.scalar_type())).item<double>();
}

}  // namespace

Budget::Budget(const Model& model, const std::vector<Param>& params, const BudgetOptions& options)
    : model_(model), params_(params), options_(options), seen_(params.size()), prices_(params.size()) {
  if (!(options.lipschitz > 0.0 && std::isfinite(options.lipschitz)))
    throw InputError("budget", fmt::format("--lipschitz must be positive, got {}", options.lipschitz));
  if (!(options.embedding_cap > 0.0) && model.shape().input == InputKind::tokens)
    throw InputError("budget",
                     "a budget needs a cap of the embedding: set constraint.embedding_cap, 1 by default");
  const UpperBound least = bound_of(uniform(kLeastCap));
  if (least > UpperBound(options.lipschitz))
    throw InputError(
        "budget",
        fmt::format("--lipschitz {} cannot be met: with every cap at {} this model's bound is still {}; "
                    "name a larger one, or change the model (a smaller final_scale, no tied embeddings)",
                    options.lipschitz, kLeastCap, least.to_string()));
  const double log_cap = largest_that_fits(std::log(kLeastCap), std::log(kLargestCap),
                                           [&](double x) { return fits(uniform(std::exp(x))); });
  caps_ = uniform(std::max(kLeastCap, std::exp(log_cap)));
  bound_ = bound_of(caps_);
}

std::vector<double> Budget::uniform(double cap) const {
  std::vector<double> caps;
  for (const Param& param : params_) {
    const double own = options_.head_only && param.role != Role::head ? 1.0 : cap;
    caps.push_back(is_table(param.role) ? options_.embedding_cap : is_matrix(param.role) ? own : 0.0);
  }
  return caps;
}

UpperBound Budget::bound_of(const std::vector<double>& caps) const {
  CapNorms norms(params_, caps);
  if (options_.papers) return paper_formula(model_, norms);
  Walk walk(norms);
  try {
    return model_.bound(model_.input_bound(norms), walk).lipschitz;
  } catch (const PromiseError& error) {
    throw InputError("budget", fmt::format("{}; take it out of the model (norms, biases, learnable scales)",
                                           error.what()));
  }
}

bool Budget::fits(const std::vector<double>& caps) const {
  return bound_of(caps) <= UpperBound(options_.lipschitz);
}

void Budget::observe(const std::vector<at::Tensor>& gradients) {
  if (!options_.moving) return;
  for (size_t i = 0; i < params_.size(); ++i)
    if (is_matrix(params_[i].role)) seen_[i] -= inner_product(gradients.at(i), params_[i].tensor);
}

// ∂log L/∂log cap by differences: a choice is made by it, nothing is proved.
std::vector<double> Budget::costs() const {
  constexpr double step = 1e-4;
  const double here = std::log(bound_of(caps_).to_double());
  std::vector<double> costs(params_.size());
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!is_matrix(params_[i].role)) continue;
    std::vector<double> caps = caps_;
    caps[i] *= std::exp(step);
    costs[i] = std::max(kLeastCost, (std::log(bound_of(caps).to_double()) - here) / step);
  }
  return costs;
}

// A cap that lies above its weight's norm comes down towards it, by at most `rate`·`share`, and never below it: a constraint that is
// prepared for what a step can add to the cap would not bring it back. The room above the norm goes with the learning rate: caps
// 2 % above eight norms in a row at the end would leave a seventh of the budget unused.
void Budget::tighten(double share) {
  const double excess = 5e-4 + 5e-3 * share;
  const double room = 1.0 + 5e-4 + 2e-2 * share;
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!is_matrix(params_[i].role)) continue;
    double norm = 0.0;
    for (const auto& bound : spectral_norm_bounds(params_[i].block_view().detach(), {.excess = excess}))
      norm = std::max(norm, bound ? bound->value.to_double() / params_[i].unit() : caps_[i]);
    caps_[i] =
        std::min(caps_[i], std::max({room * norm, caps_[i] * std::exp(-options_.rate * share), kLeastCap}));
  }
}

// How much better than the average a unit of log L is spent on each weight, in units of the typical difference.
std::vector<double> Budget::merits(const std::vector<double>& costs) const {
  double price = 0.0;
  double cost = 0.0;
  for (size_t i = 0; i < costs.size(); ++i) {
    price += prices_[i];
    cost += costs[i];
  }
  const double average = price / cost;  // of p_i/c_i, weighted by c_i
  double spread = 0.0;
  for (size_t i = 0; i < costs.size(); ++i) spread += std::abs(prices_[i] - average * costs[i]) / cost;
  std::vector<double> merits(costs.size());
  if (spread == 0.0) return merits;
  for (size_t i = 0; i < costs.size(); ++i)
    if (costs[i] > 0.0) merits[i] = (prices_[i] / costs[i] - average) / spread;
  return merits;
}

// Caps move by up to `rate` each way; the level at which a cap neither rises nor falls is where the budget is just kept.
std::vector<double> Budget::moved_caps(double rate) const {
  const std::vector<double> merit = merits(costs());
  const auto moved = [&](double level) {
    std::vector<double> caps = caps_;
    for (size_t i = 0; i < caps.size(); ++i)
      if (is_matrix(params_[i].role))
        caps[i] = std::clamp(caps[i] * std::exp(rate * std::tanh(merit[i] + level)), kLeastCap, kLargestCap);
    return caps;
  };
  constexpr double far = 20.0;  // where tanh is 1 for all of them
  if (!fits(moved(-far))) return caps_;
  return moved(largest_that_fits(-far, far, [&](double level) { return fits(moved(level)); }));
}

std::vector<double> Budget::move(double share) {
  std::vector<double> factors(params_.size(), 1.0);
  double largest = 0.0;
  for (size_t i = 0; i < params_.size(); ++i) {
    prices_[i] = options_.memory * prices_[i] + (1.0 - options_.memory) * seen_[i];
    seen_[i] = 0.0;
    largest = std::max(largest, std::abs(prices_[i]));
  }
  if (!options_.moving || largest == 0.0) return factors;
  tighten(share);
  const std::vector<double> caps = moved_caps(options_.rate * share);
  for (size_t i = 0; i < caps.size(); ++i)
    if (caps_[i] > 0.0) factors[i] = caps[i] / caps_[i];
  caps_ = caps;
  bound_ = bound_of(caps_);
  return factors;
}

std::map<std::string, at::Tensor> Budget::state() const {
  const auto tensor = [](const std::vector<double>& values) {
    const at::Tensor result = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
    for (size_t i = 0; i < values.size(); ++i) result[static_cast<int64_t>(i)] = values[i];
    return result;
  };
  return {{"caps", tensor(caps_)}, {"seen", tensor(seen_)}, {"prices", tensor(prices_)}};
}

void Budget::set_state(const std::map<std::string, at::Tensor>& state) {
  const auto take = [&](const char* name, std::vector<double>& values) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.numel() != static_cast<int64_t>(values.size()))
      throw InputError("budget", fmt::format("the checkpoint's '{}' does not belong to this model", name));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = found->second[static_cast<int64_t>(i)].item<double>();
  };
  take("caps", caps_);
  take("seen", seen_);
  take("prices", prices_);
  bound_ = bound_of(caps_);
  if (bound_ > UpperBound(options_.lipschitz))
    throw InputError("budget", fmt::format("the checkpoint's caps give a bound of {}, above the budget of {}",
                                           bound_.to_string(), options_.lipschitz));
}

}  // namespace bridle
