// The share of the learning rate, from Modula's mass and sensitivity: a chain f₁∘f₀ hands f₀ the share
// mass₀/mass/sensitivity₁ and f₁ the share mass₁/mass. Everything but a residual connection has sensitivity 1, so
//   share = mass / Σ mass ÷ Π sensitivities of the residuals after the weight.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "bridle/error.h"
#include "bridle/optim.h"

namespace bridle {
namespace {

enum class Group { blocks, embedding, head, linear, none };

Group group_of(Role role) {
  switch (role) {
    case Role::query:
    case Role::key:
    case Role::value:
    case Role::attention_output:
    case Role::mlp_up:
    case Role::mlp_down:
    case Role::mixing_output:
    case Role::content_query:
    case Role::content_key:
      return Group::blocks;
    case Role::embedding:
      return Group::embedding;
    case Role::head:
      return Group::head;
    case Role::linear:
      return Group::linear;
    case Role::position_embedding:
    case Role::position_bias:
    case Role::logit_bias:
    case Role::bias:
    case Role::gain:
    case Role::residual_weight:
    case Role::mixing_weight:
    case Role::memory:
    case Role::memory_decay:
    case Role::content_range:
      break;
  }
  return Group::none;
}

size_t index(Group group) { return static_cast<size_t>(group); }

struct Sensitivity {
  double attention;
  double mlp;
};

// Literal: attention adds q, k and v to the identity, 1 + 3, the MLP adds 1, and no α makes them smaller.
Sensitivity sensitivity_of(ResidualSensitivity choice) {
  switch (choice) {
    case ResidualSensitivity::one:
      break;
    case ResidualSensitivity::two:
      return {2.0, 2.0};
    case ResidualSensitivity::literal:
      return {4.0, 2.0};
  }
  return {1.0, 1.0};
}

void check(const Param& param) {
  if (group_of(param.role) == Group::none) return;
  if (!(param.mass > 0.0 && std::isfinite(param.mass))) {
    throw InputError(
        "mass", fmt::format("the mass of {} must be positive and finite, got {}", param.name, param.mass));
  }
  if (param.attention_residuals_after < 0 || param.mlp_residuals_after < 0) {
    throw InputError(
        "mass", fmt::format("{} has {} attention and {} MLP residuals after it: count from 0", param.name,
                            param.attention_residuals_after, param.mlp_residuals_after));
  }
}

// What the masses of a group are multiplied by so that they add up to the group's.
using GroupScales = std::array<double, 5>;

GroupScales group_scales(std::span<const Param> params, const MassOptions& options) {
  GroupScales sums{}, scales{1.0, 1.0, 1.0, 1.0, 0.0};
  for (const Param& param : params) sums[index(group_of(param.role))] += param.mass;
  if (sums[index(Group::blocks)] == 0.0) return scales;
  const std::array<std::pair<Group, double>, 3> masses = {{{Group::blocks, options.blocks_mass},
                                                           {Group::embedding, options.embedding_mass},
                                                           {Group::head, options.head_mass}}};
  for (const auto& [group, mass] : masses) {
    if (!(mass >= 0.0 && std::isfinite(mass))) {
      throw InputError("mass", fmt::format("a group's mass is {}: it must be finite and not negative", mass));
    }
    if (sums[index(group)] > 0.0) scales[index(group)] = mass / sums[index(group)];
  }
  return scales;
}

}  // namespace

const char* word(ResidualSensitivity sensitivity) {
  switch (sensitivity) {
    case ResidualSensitivity::one:
      return "1";
    case ResidualSensitivity::two:
      return "2";
    case ResidualSensitivity::literal:
      return "literal";
  }
  return nullptr;
}

std::vector<double> learning_rate_shares(std::span<const Param> params, const MassOptions& options) {
  const Sensitivity sensitivity = sensitivity_of(options.residual_sensitivity);
  std::vector<double> shares(params.size(), 1.0);
  if (!options.use) return shares;
  for (const Param& param : params) check(param);
  const GroupScales scales = group_scales(params, options);
  double total = 0.0;
  for (const Param& param : params) total += param.mass * scales[index(group_of(param.role))];
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = params[i];
    const Group group = group_of(param.role);
    if (group == Group::none) continue;
    if (total == 0.0) throw InputError("mass", "all masses are 0: no weight would learn");
    const double residuals =
        std::pow(sensitivity.attention, static_cast<double>(param.attention_residuals_after)) *
        std::pow(sensitivity.mlp, static_cast<double>(param.mlp_residuals_after));
    shares[i] = param.mass * scales[index(group)] / total / residuals;
  }
  return shares;
}

}  // namespace bridle
