#include "certify/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/certify.h"
#include "bridle/error.h"
#include "certify/cap_norms.h"

namespace bridle {
namespace {

constexpr double kLeastCap = 1e-4;
constexpr double kLargestCap = 1e9;

// The caps with a head's cap of one's choice, and what they are worth.
class Caps {
 public:
  Caps(const Model& model, const std::vector<Param>& params, const BudgetOptions& options)
      : model_(model), params_(params), options_(options) {}

  std::vector<double> with_head(double cap) const {
    std::vector<double> caps;
    for (const Param& param : params_) {
      const double own = param.role == Role::head ? cap : 1.0;
      caps.push_back(is_table(param.role) ? options_.embedding_cap : is_matrix(param.role) ? own : 0.0);
    }
    return caps;
  }

  UpperBound bound(double head) const {
    const std::vector<double> caps = with_head(head);
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

  bool fits(double head) const { return bound(head) <= UpperBound(options_.lipschitz); }

  // By bisection of its logarithm; kLeastCap fits.
  double largest_head() const {
    if (fits(kLargestCap)) return kLargestCap;
    double low = std::log(kLeastCap), high = std::log(kLargestCap);
    for (int i = 0; i < 100; ++i) {
      const double middle = 0.5 * (low + high);
      (fits(std::exp(middle)) ? low : high) = middle;
    }
    return std::max(kLeastCap, std::exp(low));
  }

 private:
  const Model& model_;
  const std::vector<Param>& params_;
  const BudgetOptions& options_;
};

}  // namespace

Budget budget_for(const Model& model, const std::vector<Param>& params, const BudgetOptions& options) {
  if (!(options.lipschitz > 0.0 && std::isfinite(options.lipschitz)))
    throw InputError("budget", fmt::format("--lipschitz must be positive, got {}", options.lipschitz));
  if (!(options.embedding_cap > 0.0) && model.shape().input == InputKind::tokens)
    throw InputError("budget",
                     "a budget needs a cap of the embedding: set constraint.embedding_cap, 1 by default");
  const Caps caps(model, params, options);
  if (!caps.fits(kLeastCap))
    throw InputError(
        "budget",
        fmt::format(
            "--lipschitz {} cannot be met: with the head's cap at {} and every other at 1 this model's "
            "bound is still {}; name a larger one, or change the model (convex residuals, no tied "
            "embeddings, a smaller softmax_scale)",
            options.lipschitz, kLeastCap, caps.bound(kLeastCap).to_string()));
  const double head = caps.largest_head();
  return {caps.with_head(head), caps.bound(head)};
}

}  // namespace bridle
