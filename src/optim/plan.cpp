// See plan.h.
#include "optim/plan.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/linalg.h"

namespace bridle {
namespace {

// From `least` to below `limit`.
struct Range {
  const char* name;
  double value;
  double least;
  double limit;
};

void check_ranges(const OptimizerOptions& options) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double smallest = std::numeric_limits<float>::min();  // below, float32 would make it 0
  for (const Range& range :
       {Range{"lr", options.lr, 0.0, infinity}, Range{"weight_decay", options.weight_decay, 0.0, infinity},
        Range{"momentum", options.momentum, 0.0, 1.0},
        Range{"momentum_start", options.momentum_start, 0.0, 1.0}, Range{"beta1", options.beta1, 0.0, 1.0},
        Range{"beta2", options.beta2, 0.0, 1.0}, Range{"eps", options.eps, smallest, infinity},
        Range{"adam_lr", options.adam_lr, 0.0, infinity},
        Range{"inflation_limit", options.inflation_limit, smallest, infinity},
        Range{"embedding_lr", options.embedding_lr, 0.0, infinity},
        Range{"head_lr", options.head_lr, 0.0, infinity},
        Range{"gradient_clip", options.gradient_clip, 0.0, infinity}}) {
    if (range.value >= range.least && range.value < range.limit) continue;
    const std::string wanted = range.limit < infinity
                                   ? fmt::format("at least {} and below {}", range.least, range.limit)
                               : range.least > 0.0 ? "positive and finite"
                                                   : "0 or more and finite";
    throw InputError("optimizer", fmt::format("{} must be {}, got {}", range.name, wanted, range.value));
  }
}

bool is_supported(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16;
}

// Shares of adam_lr. A mixture's weights live in [0, 1]: at the full rate a branch would be shut before it has learned anything. So
// would a content head, whose range would go to nothing before its queries and keys are of use.
// A memory's rows have entries of RMS 1, which the full rate would move too slowly to be of use before the branch is shut.
double lr_share(Role role) {
  if (role == Role::residual_weight || role == Role::mixing_weight || role == Role::content_range)
    return 0.25;
  return role == Role::memory ? 10.0 : 1.0;
}

bool uses_adamw(const OptimizerOptions& options) { return options.method == OptimizerMethod::adamw; }

UpdateRule embedding_rule(const OptimizerOptions& options) {
  switch (options.embedding) {
    case EmbeddingRule::automatic:
      break;
    case EmbeddingRule::row_normalize:
      return UpdateRule::row_normalize;
    case EmbeddingRule::adam:
      return UpdateRule::adam;
  }
  return uses_adamw(options) ? UpdateRule::adam : UpdateRule::row_normalize;
}

// docs/theory/steps.md, statements 1 and 2; for Adam there is none.
double bound_of(UpdateRule rule, const OptimizerOptions& options) {
  constexpr double coarse = 1.02;  // room for bfloat16's rounding; a proof covers what may be left
  const bool narrow = options.product_dtype == at::kBFloat16;
  if (rule == UpdateRule::muon) return (narrow ? coarse : 1.0) * update_bound(options.ns_coefficients);
  return rule == UpdateRule::row_normalize ? 1.0 : std::numeric_limits<double>::infinity();
}

Plan plan_with(UpdateRule rule, double own_lr, double share, const OptimizerOptions& options) {
  const double rate = own_lr > 0.0 ? own_lr : options.lr * share;
  // As in the paper: AdamW's update is not in the units that shares divide.
  const bool undivided = own_lr == 0.0 && rule == UpdateRule::adam && uses_adamw(options);
  return {rule, undivided ? options.lr : rate, rate, options.weight_decay, bound_of(rule, options)};
}

Plan plan_rest(const Param& param, const OptimizerOptions& options) {
  const bool plain_adamw = uses_adamw(options) && !options.mass.use;
  const double rate = lr_share(param.role) * options.adam_lr;
  if (!plain_adamw) return {.update_rate = rate, .decay_rate = rate};
  return {.update_rate = options.lr,
          .decay_rate = options.lr,
          .decay = param.tensor.dim() >= 2 ? options.weight_decay : 0.0};
}

}  // namespace

const char* word(OptimizerMethod method) {
  switch (method) {
    case OptimizerMethod::muon:
      return "muon";
    case OptimizerMethod::adamw:
      return "adamw";
  }
  return nullptr;
}

const char* word(EmbeddingRule rule) {
  switch (rule) {
    case EmbeddingRule::automatic:
      return "auto";
    case EmbeddingRule::row_normalize:
      return "row_normalize";
    case EmbeddingRule::adam:
      return "adam";
  }
  return nullptr;
}

void check_options(const OptimizerOptions& options) {
  check_ranges(options);
  if (options.momentum_warmup_steps < 0 ||
      (options.momentum_start > 0.0) != (options.momentum_warmup_steps > 0)) {
    throw InputError(
        "optimizer",
        fmt::format("momentum_start and momentum_warmup_steps must both be positive, or both 0; got "
                    "{} and {}",
                    options.momentum_start, options.momentum_warmup_steps));
  }
  if (options.product_dtype && !is_supported(*options.product_dtype)) {
    throw InputError("optimizer", fmt::format("product_dtype must be float32, bfloat16 or float64, got {}",
                                              c10::toString(*options.product_dtype)));
  }
}

Plan plan_steps(const Param& param, double share, const OptimizerOptions& options) {
  if (!param.tensor.defined() || param.tensor.numel() == 0 || !is_supported(param.tensor.scalar_type())) {
    throw InputError(
        "optimizer",
        fmt::format("{} is not a weight: give a tensor with entries in float32, bfloat16 or float64",
                    param.name));
  }
  if (is_matrix(param.role) || param.role == Role::embedding) param.block_view();  // throws if it is none
  if (param.role == Role::embedding) {
    return plan_with(embedding_rule(options), options.embedding_lr, share, options);
  }
  if (!is_matrix(param.role)) return plan_rest(param, options);
  return plan_with(uses_adamw(options) ? UpdateRule::adam : UpdateRule::muon,
                   param.role == Role::head ? options.head_lr : 0.0, share, options);
}

}  // namespace bridle
