#include "train/constraint_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "bridle/error.h"
#include "kernels/team.h"

namespace bridle {

std::vector<Role> roles_by_head(HeadBlocks heads) {
  switch (heads) {
    case HeadBlocks::automatic:
    case HeadBlocks::whole:
      break;
    case HeadBlocks::kv:
      return {Role::key, Role::value};
    case HeadBlocks::qkv:
      return {Role::query, Role::key, Role::value};
  }
  return {};
}

double cap_of(Role role, const ConstraintSettings& settings) {
  if (is_table(role)) return settings.embedding_cap;
  return role == Role::head && settings.head_sigma_max > 0.0 ? settings.head_sigma_max : settings.sigma_max;
}

ConstraintSet::ConstraintSet(const std::vector<Param>& params, const ConstraintSettings& settings,
                             OwnedWeights owned)
    : params_(params), owned_(std::move(owned)), coupling_room_(settings.coupling_room) {
  const std::vector<Role> by_head = roles_by_head(settings.heads);
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = params_[i];
    if (std::find(by_head.begin(), by_head.end(), param.role) != by_head.end()) param.blocks = param.heads;
    const bool capped = is_table(param.role) ? settings.embedding_cap > 0.0 : is_matrix(param.role);
    if (!capped) continue;
    entries_.push_back(
        {i, Enforcer(param, settings.options, cap_of(param.role, settings)), is_table(param.role)});
  }
}

void ConstraintSet::set_caps(const std::vector<double>& caps) {
  for (Entry& entry : entries_) entry.enforcer.set_cap(caps.at(entry.param));
  prove_all_ = true;
}

std::vector<double> ConstraintSet::caps() const {
  std::vector<double> caps(params_.size());
  for (const Entry& entry : entries_) caps[entry.param] = entry.enforcer.cap();
  return caps;
}

bool ConstraintSet::all_proved() const {
  const bool here = std::all_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return !owns(entry) || !(entry.promised || prove_all_) || entry.enforcer.prove();
  });
  return all(here && (!prove_all_ || mixtures_hold()));
}

bool ConstraintSet::all(bool here) const {
  std::vector<double> answers(params_.size(), here ? 1.0 : 0.0);
  owned_.complete_(answers);
  return here && std::count(answers.begin(), answers.end(), 0.0) == 0;
}

void ConstraintSet::start_() {
  keep_mixtures_();
  for (Entry& entry : entries_)
    if (owns(entry)) entry.enforcer.start_();
}

// What bounds of caps take for granted: α in [0, 1], and coefficients of a proved length of at most 1.
bool ConstraintSet::mixtures_hold() const {
  const auto norms = measured_norms();
  return std::all_of(params_.begin(), params_.end(), [&](const Param& param) {
    if (param.role == Role::mixing_weight) return norms->euclidean(param) <= UpperBound(1.0);
    if (param.role != Role::residual_weight) return true;
    return param.tensor.ge(0.0).logical_and(param.tensor.le(1.0)).all().item<bool>();
  });
}

// Makes it so. Coefficients are also lengthened to 1: a mixture that is shorter would waste what the bound allows. One of (nearly)
// zeros has no direction, and stays.
void ConstraintSet::keep_mixtures_() {
  const auto norms = measured_norms();
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& param = params_[i];
    if (!owned_.owns(i)) continue;
    if (param.role == Role::residual_weight) param.tensor.detach().clamp_(0.0, 1.0);
    if (param.role != Role::mixing_weight) continue;
    double length = norms->euclidean(param).to_double();
    if (length > 1e-6 && length < 1.0 - 4e-6) param.tensor.detach().div_(length * (1.0 + 1e-6));
    for (double room = 1e-6; (length = norms->euclidean(param).to_double()) > 1.0; room *= 4.0)
      param.tensor.detach().div_(length * (1.0 + room));
  }
}

// Of all, owned or not: how threads share the work does not depend on who owns what, so that bits do not either.
std::vector<int64_t> ConstraintSet::sizes() const {
  std::vector<int64_t> sizes;
  for (const Entry& entry : entries_) sizes.push_back(params_[entry.param].tensor.numel());
  return sizes;
}

void ConstraintSet::enforce_(const std::vector<StepInfo>& steps) {
  keep_mixtures_();
  each_apart(sizes(), [&](size_t i) {
    Entry& entry = entries_[i];
    if (!owns(entry)) return;
    Enforcer& enforcer = entry.enforcer;
    StepInfo step = steps.at(entry.param);
    step.update_bound *= coupling_room_;  // of infinity it stays none
    // Some methods guarantee only a norm above the cap: they are left to their equilibrium.
    constexpr double none = std::numeric_limits<double>::infinity();
    const double norm =
        enforcer.constraint().uses_cap() ? enforcer.guarantee(step).norm.value_or(none) : none;
    entry.promised = is_table(enforcer.param().role) || norm <= enforcer.cap();
    enforcer.enforce_(step);
  });
}

void ConstraintSet::prove_and_repair_() {
  each_apart(sizes(), [&](size_t i) {
    Entry& entry = entries_[i];
    if (owns(entry) && (entry.promised || prove_all_)) entry.enforcer.prove_and_repair_();
  });
  std::vector<double> repairs(params_.size());
  for (const Entry& entry : entries_) repairs[entry.param] = static_cast<double>(entry.enforcer.repairs());
  owned_.complete_(repairs);
  repairs_ = repairs_before_ + static_cast<int64_t>(std::accumulate(repairs.begin(), repairs.end(), 0.0));
}

std::map<std::string, at::Tensor> ConstraintSet::state() const {
  std::map<std::string, at::Tensor> state;
  for (const Entry& entry : entries_) {
    if (!owns(entry)) continue;
    const at::Tensor kept = entry.enforcer.constraint().state();
    if (kept.defined()) state[params_[entry.param].name] = kept;
  }
  return state;
}

void ConstraintSet::set_state(const std::map<std::string, at::Tensor>& state, int64_t repairs) {
  repairs_before_ = repairs_ = repairs;
  for (Entry& entry : entries_) {
    const auto found = state.find(params_[entry.param].name);
    if (found != state.end()) entry.enforcer.constraint().set_state(found->second);
  }
}

}  // namespace bridle
