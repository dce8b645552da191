// The step, in order: check every gradient, clip, then a weight at a time: average, update by the rule of its role,
// W ← (1 − λη_w)W − η·update. The rules are functions of their own; the class only holds what they remember.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "bridle/optim.h"
#include "kernels/team.h"
#include "linalg/scaling.h"
#include "optim/adamw.h"
#include "optim/embedding.h"
#include "optim/muon.h"
#include "optim/plan.h"

namespace bridle {

struct Optimizer::Weight {
  Param param;
  Plan plan;
  Tensor momentum;       // m
  Tensor second_moment;  // v; only Adam has it
};

namespace {

// bfloat16 would lose most of what an average is made of.
at::ScalarType state_dtype(const Tensor& weight) {
  return weight.scalar_type() == at::kBFloat16 ? at::kFloat : weight.scalar_type();
}

Tensor zero_state(const Tensor& weight) {
  return at::zeros(weight.sizes(), weight.options().dtype(state_dtype(weight)).requires_grad(false));
}

void check_gradient(const Param& param, const Tensor& gradient) {
  const bool fits = gradient.defined() && gradient.sizes() == param.tensor.sizes() &&
                    gradient.device() == param.tensor.device() && at::isFloatingType(gradient.scalar_type());
  if (fits) return;
  const auto shape =
      gradient.defined() ? fmt::format("[{}]", fmt::join(gradient.sizes(), ", ")) : "undefined";
  throw InputError("optimizer", fmt::format("the gradient of {} is {}: it must be like the weight, [{}]",
                                            param.name, shape, fmt::join(param.tensor.sizes(), ", ")));
}

double norm_of(const Tensor& gradient) {
  const int64_t columns = gradient.dim() < 2 ? 1 : gradient.size(-1);
  return frobenius_norm(gradient.reshape({-1, columns})).item<double>();
}

void check_state_entry(const std::string& name, const Tensor& own,
                       const std::map<std::string, Tensor>& state) {
  const auto refuse = [&name](const std::string& what) {
    throw InputError("optimizer",
                     fmt::format("{} {}: the state belongs to another model or other settings", name, what));
  };
  const auto entry = state.find(name);
  if (entry == state.end()) return refuse("is missing from the state");
  const Tensor& given = entry->second;
  if (!given.defined() || given.sizes() != own.sizes() || given.scalar_type() != own.scalar_type()) {
    const auto found = given.defined() ? fmt::format("{} [{}]", c10::toString(given.scalar_type()),
                                                     fmt::join(given.sizes(), ", "))
                                       : "undefined";
    refuse(fmt::format("is {} in the state and {} [{}] here", found, c10::toString(own.scalar_type()),
                       fmt::join(own.sizes(), ", ")));
  }
  if (!std::isfinite(largest_entry(given))) refuse("holds NaN or Inf");
}

// Coefficients of a mixture have a fixed length: what would only lengthen them is taken off their gradient. Adam would follow it in
// every entry alike, and the mixture would stay as it is.
Tensor along_sphere(const Param& param, const Tensor& gradient) {
  if (param.role != Role::mixing_weight) return gradient;
  const Tensor c = param.tensor.to(gradient.scalar_type());
  const Tensor along = gradient.mul(c).sum().div(c.square().sum().clamp_min(1e-30));
  return gradient.sub(c.mul(along));
}

// W ← keep·W − rate·update, rounded once to the weight's dtype where that is the narrower one.
void descend_(const Tensor& weight, double keep, const Tensor& update, double rate) {
  if (weight.scalar_type() != update.scalar_type()) {
    weight.copy_(weight.to(update.scalar_type()).mul_(keep).sub_(update, rate));
    return;
  }
  if (keep != 1.0) weight.mul_(keep);
  weight.sub_(update, rate);
}

}  // namespace

Optimizer::Optimizer(std::vector<Param> params, const OptimizerOptions& options, OwnedWeights owned)
    : options_(options),
      owned_(std::move(owned)),
      shares_(learning_rate_shares(params, options.mass)),
      rate_factors_(params.size(), 1.0) {
  check_options(options);
  weights_.reserve(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const Plan plan = plan_steps(params[i], shares_[i], options);
    const Tensor first = owned_.owns(i) ? zero_state(params[i].tensor) : Tensor();
    const Tensor second = first.defined() && plan.rule == UpdateRule::adam ? at::zeros_like(first) : Tensor();
    sizes_.push_back(params[i].tensor.numel());
    weights_.push_back({std::move(params[i]), plan, first, second});
  }
  state_tensors();  // throws where two names are one
}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

// The norm of all gradients together, if each fits its weight and is finite.
double Optimizer::check_gradients(std::span<const Tensor> gradients) const {
  if (gradients.size() != weights_.size()) {
    throw InputError("optimizer",
                     fmt::format("got {} gradients for {} weights: give one each, in their order",
                                 gradients.size(), weights_.size()));
  }
  for (size_t i = 0; i < gradients.size(); ++i)
    if (owned_.owns(i)) check_gradient(weights_[i].param, gradients[i]);
  std::vector<double> norms(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i)
    if (owned_.owns(i)) norms[i] = norm_of(gradients[i]);
  owned_.complete_(norms);
  double norm = 0.0;
  for (size_t i = 0; i < norms.size(); ++i) {
    if (!std::isfinite(norms[i])) {
      throw NumericError("optimizer",
                         fmt::format("the gradient of {} holds NaN or Inf: the run has diverged; "
                                     "take a smaller learning rate",
                                     weights_[i].param.name));
    }
    norm = std::hypot(norm, norms[i]);
  }
  return norm;
}

Tensor Optimizer::update_(const Weight& weight, const Tensor& gradient, int64_t step) const {
  const auto direction = [&] {
    return average_gradient_(weight.momentum, gradient, momentum_at(options_, step), options_.nesterov);
  };
  switch (weight.plan.rule) {
    case UpdateRule::adam:
      return adam_update_({weight.momentum, weight.second_moment}, along_sphere(weight.param, gradient),
                          options_, step);
    case UpdateRule::row_normalize:
      return normalize_rows(direction(), options_.inflation_limit);
    case UpdateRule::muon:
      return muon_update(direction(), weight.param, {options_.ns_coefficients, options_.product_dtype});
  }
  throw std::logic_error("an update rule without a formula");
}

std::vector<StepInfo> Optimizer::step_(std::span<const Tensor> gradients, double schedule_factor,
                                       int64_t step) {
  if (!(schedule_factor >= 0.0 && std::isfinite(schedule_factor)) || step < 0) {
    throw InputError("optimizer", fmt::format("step and schedule factor must be 0 or more, got {} and {}",
                                              step, schedule_factor));
  }
  const at::NoGradGuard no_grad;
  gradient_norm_ = check_gradients(gradients);
  const bool clips = options_.gradient_clip > 0.0 && gradient_norm_ > options_.gradient_clip;
  std::vector<StepInfo> infos(weights_.size());
  each_apart(sizes_, [&](size_t i) {
    const Weight& weight = weights_[i];
    const Plan& plan = weight.plan;
    const double factor = schedule_factor * rate_factors_[i];
    const StepInfo info{plan.decay_rate * factor, plan.decay, plan.update_bound};
    infos[i] = info;
    if (!owned_.owns(i)) return;
    Tensor gradient = gradients[i].to(weight.momentum.scalar_type());
    if (clips) gradient = gradient.mul(options_.gradient_clip / gradient_norm_);
    descend_(weight.param.tensor, 1.0 - info.decay * info.learning_rate, update_(weight, gradient, step),
             plan.update_rate * factor);
  });
  return infos;
}

void Optimizer::set_rate_factors(std::vector<double> factors) {
  const bool good =
      std::all_of(factors.begin(), factors.end(), [](double f) { return f > 0.0 && std::isfinite(f); });
  if (!good || factors.size() != weights_.size())
    throw InputError("optimizer", fmt::format("{} rate factors for {} weights: one each, positive and finite",
                                              factors.size(), weights_.size()));
  rate_factors_ = std::move(factors);
}

// The tensors themselves, by their names.
std::map<std::string, Tensor> Optimizer::state_tensors() const {
  std::map<std::string, Tensor> tensors;
  for (const Weight& weight : weights_) {
    if (!weight.momentum.defined()) continue;  // not owned
    if (!tensors.emplace(weight.param.name + ".momentum", weight.momentum).second) {
      throw InputError("optimizer",
                       fmt::format("two weights are called {}: give each its own name", weight.param.name));
    }
    if (weight.second_moment.defined()) {
      tensors.emplace(weight.param.name + ".second_moment", weight.second_moment);
    }
  }
  return tensors;
}

std::map<std::string, Tensor> Optimizer::state() const {
  auto copies = state_tensors();
  for (auto& [name, tensor] : copies) tensor = tensor.clone();
  return copies;
}

void Optimizer::set_state(const std::map<std::string, Tensor>& state) {
  const auto own = state_tensors();
  for (const auto& [name, tensor] : own) check_state_entry(name, tensor, state);
  for (const auto& [name, tensor] : state) {
    if (!own.contains(name)) {
      throw InputError("optimizer", fmt::format("the state holds {}, which no weight here has", name));
    }
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) tensor.copy_(state.at(name));
}

}  // namespace bridle
