// See training_plan.h.
#include "train/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/error.h"
#include "dist/owners.h"
#include "dist/slices.h"
#include "train/constraint_set.h"
#include "train/train_state.h"

namespace bridle {
namespace {

constexpr double kFloat = 4.0;     // bytes of an entry on the wire
constexpr double kPayload = 0.95;  // of what a link carries; the rest are headers of Ethernet, IP and TCP

void check(const PlanOptions& plan) {
  const auto positive = [](const char* flag, double value) {
    if (!(value > 0.0 && std::isfinite(value)))
      throw InputError("plan", fmt::format("{} must be positive, got {}", flag, value));
  };
  if (plan.ranks < 1) throw InputError("plan", fmt::format("--ranks must be at least 1, got {}", plan.ranks));
  positive("--flops", plan.flops);
  if (plan.ranks > 1) positive("--gbit", plan.gbit);
}

// What one rank owns.
struct Share {
  double flop = 0.0;
  double bytes = 0.0;
};

std::vector<Share> shares_of(const RunOptions& options, const std::vector<Param>& params, const Model& model,
                             int64_t ranks) {
  std::vector<double> costs;
  for (const Param& param : params) costs.push_back(owner_flop(options, param));
  const std::vector<int64_t> owners = owners_by_cost(costs, ranks);
  std::vector<Share> shares(static_cast<size_t>(ranks));
  for (size_t i = 0; i < params.size(); ++i) {
    Share& share = shares[static_cast<size_t>(owners[i])];
    const FlopCount own = flop_count(options, model, {params[i]});
    share.flop += own.optimizer + own.constraint + own.proof;
    share.bytes += kFloat * static_cast<double>(params[i].tensor.numel());
  }
  return shares;
}

// What the busiest link carries while gradients go to owners, and while weights come back.
void count_bytes(TrainingPlan& plan, const std::vector<Share>& shares) {
  const auto ranks = std::ssize(shares);
  std::vector<double> nodes;
  double all_nodes = 0.0, all_bytes = 0.0;
  for (int64_t r = 0; r < ranks; ++r) {
    nodes.push_back(static_cast<double>(nodes_of(plan.slices, slices_of(plan.slices, r, ranks)).size()));
    all_nodes += nodes.back();
    all_bytes += shares[static_cast<size_t>(r)].bytes;
  }
  for (size_t r = 0; r < shares.size(); ++r) {
    const double own = shares[r].bytes, others = all_bytes - own;
    plan.gradient_bytes = std::max({plan.gradient_bytes, nodes[r] * others, (all_nodes - nodes[r]) * own});
    plan.weight_bytes = std::max({plan.weight_bytes, static_cast<double>(ranks - 1) * own, others});
  }
}

}  // namespace

TrainingPlan plan_training(const RunOptions& options, const PlanOptions& plan) {
  check(plan);
  const auto model = outline(options.model.options());
  const std::vector<Param> params = ConstraintSet(model->params(), options.constraint).params();
  const FlopCount flop = flop_count(options, *model, params);
  TrainingPlan result{.slices = options.training.accumulate * options.training.slices,
                      .examples = examples_per_step(options, model->shape().input),
                      .flop = flop.total(),
                      .memory = memory_estimate(options, static_cast<int>(plan.threads), plan.ranks),
                      .steps = options.training.steps};
  for (const Param& param : params) result.parameters += param.tensor.numel();
  const auto most = static_cast<double>(slices_of(result.slices, plan.ranks - 1, plan.ranks).count);
  result.pass_flop = (flop.forward + flop.backward) * most / static_cast<double>(result.slices);
  const std::vector<Share> shares = shares_of(options, params, *model, plan.ranks);
  for (const Share& share : shares) result.owner_flop = std::max(result.owner_flop, share.flop);
  result.compute_seconds = (result.pass_flop + result.owner_flop) / plan.flops;
  if (plan.ranks == 1) return result;
  count_bytes(result, shares);
  result.exchange_seconds =
      (result.gradient_bytes + result.weight_bytes) * 8.0 / (kPayload * 1e9 * plan.gbit);
  return result;
}

}  // namespace bridle
