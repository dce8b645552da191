// See bridle/param.h.
#include "bridle/param.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "bridle/error.h"

namespace bridle {

const char* role_name(Role role) {
  switch (role) {
    case Role::linear:
      return "linear";
    case Role::query:
      return "query";
    case Role::key:
      return "key";
    case Role::value:
      return "value";
    case Role::attention_output:
      return "attention_output";
    case Role::mlp_up:
      return "mlp_up";
    case Role::mlp_down:
      return "mlp_down";
    case Role::mixing_output:
      return "mixing_output";
    case Role::content_query:
      return "content_query";
    case Role::content_key:
      return "content_key";
    case Role::head:
      return "head";
    case Role::embedding:
      return "embedding";
    case Role::position_embedding:
      return "position_embedding";
    case Role::position_bias:
      return "position_bias";
    case Role::logit_bias:
      return "logit_bias";
    case Role::bias:
      return "bias";
    case Role::gain:
      return "gain";
    case Role::residual_weight:
      return "residual_weight";
    case Role::mixing_weight:
      return "mixing_weight";
    case Role::memory:
      return "memory";
    case Role::memory_decay:
      return "memory_decay";
    case Role::content_range:
      return "content_range";
  }
  throw InputError("role", fmt::format("{} is not a role", static_cast<int>(role)));
}

bool is_matrix(Role role) { return role <= Role::head; }

bool is_table(Role role) {
  return role == Role::embedding || role == Role::position_embedding || role == Role::memory;
}

Tensor Param::block_view() const {
  if (!tensor.defined() || tensor.dim() != 2 || tensor.numel() == 0) {
    throw InputError("param",
                     fmt::format("{} is not a matrix: give a tensor [rows, columns] with entries", name));
  }
  if (blocks < 1 || tensor.size(0) % blocks != 0) {
    throw InputError("param", fmt::format("{} has {} rows, which do not divide into {} blocks", name,
                                          tensor.size(0), blocks));
  }
  return tensor.view({blocks, tensor.size(0) / blocks, tensor.size(1)});
}

double Param::unit() const {
  const auto out = static_cast<double>(fan_out > 0 ? fan_out : tensor.size(0));
  const auto in = static_cast<double>(fan_in > 0 ? fan_in : tensor.size(1));
  return std::sqrt(out / static_cast<double>(blocks) / in);
}

double StepInfo::reach(double norm) const {
  // |1 − p| is the larger of 1 − p and p − 1.
  const double shrink =
      std::max(add_up(1.0, -mul_down(decay, learning_rate)), add_up(mul_up(decay, learning_rate), -1.0));
  return add_up(mul_up(shrink, norm), mul_up(update_bound, learning_rate));
}

}  // namespace bridle
