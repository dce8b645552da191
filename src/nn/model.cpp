// Making models, and what a model of one's own need not override.
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "bridle/error.h"
#include "bridle/nn.h"
#include "nn/enclosure.h"
#include "nn/mlp.h"
#include "nn/model_options.h"
#include "nn/transformer.h"

namespace bridle {
namespace {

constexpr int64_t kMostBlocks = int64_t{1} << 14U;  // of an outline

double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }  // NaN wins: it must be seen

std::unique_ptr<Model> model_from(const ModelOptions& options, const WeightOrigin& origin) {
  struct Make {
    const WeightOrigin& origin;
    std::unique_ptr<Model> operator()(const MlpOptions& o) const { return std::make_unique<Mlp>(o, origin); }
    std::unique_ptr<Model> operator()(const TransformerOptions& o) const {
      return std::make_unique<Transformer>(o, origin);
    }
  };
  return std::visit(Make{origin}, resolved(options));
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelOptions& options, std::optional<uint64_t> seed,
                                  const at::TensorOptions& weights) {
  return model_from(options, {.seed = seed,
                              .dtype = weights.has_dtype() ? weights.dtype().toScalarType() : at::kFloat,
                              .device = weights.device()});
}

std::unique_ptr<Model> make_model_from(const WeightSource& source, const ModelOptions& options) {
  return model_from(options, {.given = source});
}

std::unique_ptr<Model> copy_to(const Model& model, at::Device device) {
  std::unordered_map<std::string_view, at::Tensor> values;
  for (const Param& param : model.params()) values[param.name] = param.tensor.detach();
  const auto copy = [&](const std::string& name, at::IntArrayRef /*shape*/) {
    return values.at(name).to(at::device(device), /*non_blocking=*/false, /*copy=*/true);
  };
  const std::optional<ModelOptions> options = model.options();
  if (!options) throw InputError("model", "no options describe this model, so no copy of it can be made");
  return make_model_from(copy, *options);
}

std::unique_ptr<Model> outline(const ModelOptions& options) {
  // A list of more weights would itself fill memory.
  if (const auto* o = std::get_if<TransformerOptions>(&options))
    require(
        o->num_hidden_layers <= kMostBlocks,
        fmt::format("num_hidden_layers must be at most {} here, got {}", kMostBlocks, o->num_hidden_layers));
  const auto shape_alone = [](const std::string& /*name*/, at::IntArrayRef shape) {
    return at::empty(shape, at::device(at::kMeta).dtype(at::kFloat));
  };
  return make_model_from(shape_alone, options);
}

bool Model::can_fuse(const Pass& pass) const {
  return why_not_fused(pass).empty() && std::all_of(params_.begin(), params_.end(), [](const Param& param) {
           return param.tensor.is_cpu() && param.tensor.scalar_type() == at::kFloat &&
                  param.tensor.is_contiguous();
         });
}

namespace {

[[noreturn]] void refuse(const char* what) {
  throw InputError("model", fmt::format("this model has no {}: its class does not override it", what));
}

}  // namespace

LogitEnclosure Model::enclose(const at::Tensor& /*embedded*/, ErrorWalk& /*walk*/) const {
  refuse("enclose");
}
at::Tensor Model::logit_rows() const { refuse("logit_rows"); }
double Model::logit_scale() const { refuse("logit_scale"); }
ModelFlop Model::flop(int64_t /*length*/) const { refuse("flop"); }
PassMemory Model::memory(const BatchShape& /*batch*/, const Pass& /*pass*/, int /*threads*/) const {
  refuse("memory");
}

Bound Walk::record(const std::string& name, Bound bound, int64_t width) {
  if (neighbourhood != nullptr) {
    const auto seen = neighbourhood->activations.find(name);
    if (seen != neighbourhood->activations.end())
      bound.activation = min(bound.activation, seen->second + bound.lipschitz * neighbourhood->radius);
  }
  layers.push_back({name, bound, width});
  return bound;
}

void ActivationStatistics::record(const std::string& name, const at::Tensor& x) {
  const at::Tensor values = x.detach().to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  include(name, {.largest_rms = values.square().mean(-1).max().sqrt().item<double>(),
                 .largest_entry = values.abs().max().item<double>()});
}

void ActivationStatistics::include(const std::string& name, const Layer& seen) {
  Layer& layer = layers[name];
  layer.largest_rms = larger(layer.largest_rms, seen.largest_rms);
  layer.largest_entry = larger(layer.largest_entry, seen.largest_entry);
}

}  // namespace bridle
