// A bound with all that proves it, and the proof again.
#include "bridle/certify.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bridle/error.h"
#include "certify/fact_norms.h"
#include "kernels/exact_arithmetic.h"
#include "nn/cpu_model.h"
#include "nn/enclosure.h"

namespace bridle {
namespace {

struct Walked {
  UpperBound token_radius;
  UpperBound domain;
  Bound output;
  Walk walk;
};

// Every matrix states its norm, whether the walk needs it or not. The head's was asked for, for the rows that count.
void ask_for_every_norm(const Model& model, NormSource& norms) {
  for (const Param& param : model.params())
    if (is_matrix(param.role) && param.role != Role::head) norms.matrix(param);
}

// Padded rows of the head are part of the file, though no logit depends on them.
void refuse_nonfinite(const Model& model, const char* operation) {
  for (const Param& param : model.params())
    if (!param.tensor.detach().isfinite().all().item<bool>())
      throw PromiseError(operation, fmt::format("{} holds NaN or infinity", param.name));
}

// The writer's walk; the checker's starts from the stated radius.
Walked walk_through(const Model& model, WeightNorms& norms, const UpperBound& attack_radius,
                    const Neighbourhood* near = nullptr) {
  Walked result{
      .token_radius = model.input_bound(norms), .domain = {}, .output = {}, .walk = Walk(norms, near)};
  result.domain = result.token_radius + attack_radius;
  result.output = model.bound(result.domain, result.walk);
  ask_for_every_norm(model, norms);
  if (result.output.lipschitz.is_unbounded()) {
    const auto first =
        std::find_if(result.walk.layers.begin(), result.walk.layers.end(),
                     [](const LayerBound& layer) { return layer.bound.lipschitz.is_unbounded(); });
    throw PromiseError(
        "certify",
        fmt::format("this model has no finite bound, from {} on: a norm with ε = 0 stretches without limit",
                    first->name));
  }
  return result;
}

CertifiedBound stated(const Walked& walked, double attack_radius, const RecordingNorms& norms) {
  if (std::isinf(walked.domain.to_double()))
    throw InputError("certify",
                     fmt::format("the radius must leave the inputs' norm finite, got {}", attack_radius));
  CertifiedBound result{.token_radius = walked.token_radius.to_double(),
                        .attack_radius = attack_radius,
                        .domain_radius = walked.domain.to_double(),
                        .lipschitz = StatedBound::of(walked.output.lipschitz),
                        .largest_logit = StatedBound::of(walked.walk.largest_logit),
                        .weights = norms.facts(),
                        .trunk = walked.walk.trunk};
  for (const LayerBound& layer : walked.walk.layers)
    result.layers.push_back({layer.name, StatedBound::of(layer.bound.activation),
                             StatedBound::of(layer.bound.lipschitz), layer.width});
  return result;
}

// Throws unless the stated bound is at least the walked one; true if it is needlessly large.
bool is_loose(const std::string& what, const StatedBound& stated, const UpperBound& walked) {
  const auto refuse = [&](const std::string& value) {
    throw PromiseError("check", fmt::format("{} is stated as {}, but the stated norms give {}", what, value,
                                            walked.to_string(12)));
  };
  if (std::isnan(stated.value) || stated.value < 0.0 || std::isnan(stated.log10)) refuse("no number");
  if (UpperBound(stated.value) < walked) refuse(fmt::format("{}", stated.value));
  const double log10 = walked.log10();
  if (std::isfinite(log10) && stated.log10 < log10 - 1e-12 * std::max(1.0, std::abs(log10)))
    refuse(fmt::format("10^{}", stated.log10));
  if (std::isfinite(log10) && std::isinf(stated.value) && !std::isinf(walked.to_double())) return true;
  const bool loose_value = std::isfinite(stated.value) && UpperBound(stated.value) > walked * (1.0 + 1e-6);
  return loose_value || (std::isfinite(log10) && stated.log10 > log10 + 1e-6);
}

}  // namespace

CertifiedBound certify(const Model& model, double attack_radius) {
  if (!(attack_radius >= 0.0 && std::isfinite(attack_radius)))
    throw InputError("certify", fmt::format("the radius must be 0 or more, got {}", attack_radius));
  const at::NoGradGuard no_gradients;
  refuse_nonfinite(model, "certify");
  RecordingNorms norms;
  return stated(walk_through(model, norms, attack_radius), attack_radius, norms);
}

CertifiedBound certify_near(const Model& model, const Neighbourhood& near) {
  const at::NoGradGuard no_gradients;
  RecordingNorms norms;
  return stated(walk_through(model, norms, near.radius, &near), near.radius.to_double(), norms);
}

std::vector<std::string> check_bound(const Model& model, const CertifiedBound& stated) {
  const at::NoGradGuard no_gradients;
  const auto refuse = [](const std::string& what) { throw PromiseError("check", what); };
  if (!(stated.attack_radius >= 0.0 && std::isfinite(stated.attack_radius)))
    refuse(fmt::format("attack_radius is {}", stated.attack_radius));
  refuse_nonfinite(model, "check");
  StatedNorms norms(stated.weights);
  const UpperBound token_radius = model.input_bound(norms);
  if (!(stated.token_radius >= 0.0) || UpperBound(stated.token_radius) < token_radius)
    refuse(fmt::format("token_radius is {}, but inputs reach {}", stated.token_radius,
                       token_radius.to_string(12)));
  // A larger domain than the radii need is the certificate's own choice.
  if (!(stated.domain_radius >= 0.0) ||
      UpperBound(stated.domain_radius) < UpperBound(stated.token_radius) + stated.attack_radius)
    refuse(fmt::format("domain_radius is {}, less than token_radius and attack_radius together",
                       stated.domain_radius));
  Walk walk(norms);
  const Bound output = model.bound(stated.domain_radius, walk);
  ask_for_every_norm(model, norms);
  if (output.lipschitz.is_unbounded()) refuse("this model has no finite bound");
  if (walk.layers.size() != stated.layers.size())
    refuse(fmt::format("{} layers are stated; the model has {}", stated.layers.size(), walk.layers.size()));
  std::vector<std::string> loose = norms.loose();
  const auto compare = [&](const std::string& what, const StatedBound& said, const UpperBound& walked) {
    if (is_loose(what, said, walked))
      loose.push_back(fmt::format("{} could be {}", what, walked.to_string()));
  };
  for (size_t i = 0; i < walk.layers.size(); ++i) {
    const StatedLayer& said = stated.layers[i];
    if (said.name != walk.layers[i].name)
      refuse(fmt::format("layer {} is stated as {}; it is {}", i, said.name, walk.layers[i].name));
    compare("the activation after " + said.name, said.activation, walk.layers[i].bound.activation);
    compare("the bound after " + said.name, said.lipschitz, walk.layers[i].bound.lipschitz);
  }
  compare("largest_logit_lipschitz", stated.largest_logit, walk.largest_logit);
  compare("lipschitz", stated.lipschitz, output.lipschitz);
  norms.refuse_unproved();
  std::set<std::string> names;
  for (const Param& param : model.certified_weights()) names.insert(param.name);
  for (const WeightFacts& facts : stated.weights)
    if (!names.contains(facts.name))
      refuse(fmt::format("an entry is about {}, which the model does not have", facts.name));
  return loose;
}

Neighbourhood neighbourhood_of(const Model& model, const std::vector<at::Tensor>& inputs, double radius) {
  if (!(radius >= 0.0 && std::isfinite(radius)))
    throw InputError("certify", fmt::format("the radius must be 0 or more, got {}", radius));
  const at::NoGradGuard no_gradients;
  const ExactArithmetic arithmetic;
  ErrorWalk walk;
  Pass pass{.dtype = at::kDouble};
  const CpuModel own(model);
  for (const at::Tensor& batch : inputs) {
    const at::Tensor embedded = own->embed(batch.cpu(), pass);
    walk.begins = pass.begins;
    own->enclose(embedded, walk);
  }
  return {.activations = walk.activations, .radius = radius};
}

}  // namespace bridle
