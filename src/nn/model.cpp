// Options of models: what is filled in, what is refused; and making one.
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
#include "nn/transformer.h"

namespace bridle {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 24U;  // of anything that is counted: products of two fit

constexpr int64_t kMostBlocks = int64_t{1} << 14U;  // of an outline

void require(bool condition, const std::string& message) {
  if (!condition) throw InputError("model", message);
}

double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }  // NaN wins: it must be seen

void check(const TransformerOptions& o) {
  const std::pair<const char*, int64_t> counts[] = {{"vocab_size", o.vocab_size},
                                                    {"hidden_size", o.hidden_size},
                                                    {"num_hidden_layers", o.num_hidden_layers},
                                                    {"num_attention_heads", o.num_attention_heads},
                                                    {"num_key_value_heads", o.num_key_value_heads},
                                                    {"intermediate_size", o.intermediate_size},
                                                    {"max_position_embeddings", o.max_position_embeddings},
                                                    {"position_bias_offsets", o.position_bias_offsets},
                                                    {"position_bias_dilation", o.position_bias_dilation}};
  for (const auto& [key, value] : counts)
    require(value >= 1 && value <= kLargestSize,
            fmt::format("{} must be from 1 to {}, got {}", key, kLargestSize, value));
  require(o.real_vocab_size >= 1 && o.real_vocab_size <= o.vocab_size,
          fmt::format("real_vocab_size must be from 1 to vocab_size = {}, got {}", o.vocab_size,
                      o.real_vocab_size));
  require(o.mixing == MixingKind::quadrature || o.hidden_size % o.num_attention_heads == 0,
          fmt::format("hidden_size must be a multiple of num_attention_heads = {}, got {}",
                      o.num_attention_heads, o.hidden_size));
  require(o.num_attention_heads % o.num_key_value_heads == 0,
          fmt::format("num_attention_heads must be a multiple of num_key_value_heads = {}, got {}",
                      o.num_key_value_heads, o.num_attention_heads));
  require(
      o.positions != PositionKind::rope || o.head_size() % 2 == 0,
      fmt::format("the size of a head must be even for rope, which rotates pairs, got {}", o.head_size()));
  require(o.activation != ActivationKind::maxmin || o.intermediate_size % 2 == 0,
          fmt::format("intermediate_size must be even for maxmin, which sorts pairs, got {}",
                      o.intermediate_size));
  require(std::isfinite(o.position_bias_start),
          fmt::format("position_bias_start must be finite, got {}", o.position_bias_start));
  require(o.activation_divisor > 0.0 && std::isfinite(o.activation_divisor),
          fmt::format("activation_divisor must be positive, got {}", o.activation_divisor));
  require(o.rope_theta > 0.0, fmt::format("rope_theta must be positive, got {}", o.rope_theta));
  const bool quadrature = o.mixing == MixingKind::quadrature;
  require(
      o.memory_channels >= 0 && o.memory_channels <= kLargestSize && (quadrature || o.memory_channels == 0),
      fmt::format("memory_channels must be from 0 to {}, and 0 without mixing = quadrature, got {}",
                  kLargestSize, o.memory_channels));
  require(
      !quadrature || (o.hidden_size % 32 == 0 && o.memory_channels % 32 == 0),
      fmt::format("hidden_size and memory_channels must be multiples of 32 for mixing = quadrature, got {} "
                  "and {}",
                  o.hidden_size, o.memory_channels));
  require(!quadrature || (o.norm == NormLayer::none && o.positions == PositionKind::none && !o.qk_norm &&
                          !o.learnable_scales && o.num_key_value_heads == o.num_attention_heads),
          "mixing = quadrature reads by position alone, without norms: it goes with norm = none, positions = "
          "none, "
          "qk_norm = false, learnable_scales = false and no num_key_value_heads");
  require(o.qk_norm_epsilon >= 0.0 && std::isfinite(o.qk_norm_epsilon),
          fmt::format("qk_norm_epsilon must not be negative, got {}", o.qk_norm_epsilon));
  require(o.attention_window >= 0 && o.attention_window <= kLargestSize,
          fmt::format("attention_window must be from 0 to {}, got {}", kLargestSize, o.attention_window));
  require(o.document_token >= -1 && o.document_token < o.vocab_size,
          fmt::format("document_token must be from -1 to vocab_size - 1 = {}, got {}", o.vocab_size - 1,
                      o.document_token));
  require(o.drop_path >= 0.0 && o.drop_path < 1.0,
          fmt::format("drop_path must be at least 0 and below 1, got {}", o.drop_path));
  require(o.logit_soft_cap >= 0.0 && std::isfinite(o.logit_soft_cap),
          fmt::format("logit_soft_cap must not be negative, got {}", o.logit_soft_cap));
  require(o.norm != NormLayer::center_norm || o.hidden_size >= 2,
          "hidden_size must be at least 2 for center_norm, got 1");
  require(!o.learned_alpha || o.residual == ResidualKind::convex,
          "learned_alpha must be false for residual = plain, which has no alpha");
  require(o.norm_epsilon >= 0.0 && std::isfinite(o.norm_epsilon),
          fmt::format("norm_epsilon must not be negative, got {}", o.norm_epsilon));
  require(o.dropout >= 0.0 && o.dropout < 1.0,
          fmt::format("dropout must be at least 0 and below 1, got {}", o.dropout));
  for (const double value :
       {o.softmax_scale, o.attention_output_scale, o.attention_alpha, o.mlp_alpha, o.final_scale})
    require(std::isfinite(value),
            "softmax_scale, attention_output_scale, the alphas and final_scale must be finite");
}

void check(const MlpOptions& o) {
  require(o.layer_sizes.size() >= 2,
          fmt::format("layer_sizes must have at least 2 entries, input and output, got {}",
                      o.layer_sizes.size()));
  require(o.input_bound > 0.0 && std::isfinite(o.input_bound),
          fmt::format("input_bound must be positive, got {}", o.input_bound));
  for (size_t i = 1; o.activation == ActivationKind::maxmin && i + 1 < o.layer_sizes.size(); ++i)
    require(o.layer_sizes[i] % 2 == 0,
            fmt::format("a hidden layer's size must be even for maxmin, which sorts pairs, got {}",
                        o.layer_sizes[i]));
  for (const int64_t size : o.layer_sizes)
    require(size >= 1 && size <= kLargestSize,
            fmt::format("layer_sizes must be from 1 to {}, got {}", kLargestSize, size));
  require(std::isfinite(o.final_scale), fmt::format("final_scale must be finite, got {}", o.final_scale));
}

void fill_in_(MlpOptions& /*nothing*/) {}

void fill_in_(TransformerOptions& o) {
  const double alpha = o.num_hidden_layers < 1 ? 0.0 : 1.0 / (2.0 * static_cast<double>(o.num_hidden_layers));
  require(o.num_hidden_layers <= kLargestSize && o.hidden_size <= kLargestSize,
          fmt::format("num_hidden_layers and hidden_size must be at most {}, got {} and {}", kLargestSize,
                      o.num_hidden_layers, o.hidden_size));
  if (o.attention_alpha == 0.0) o.attention_alpha = alpha;
  if (o.mlp_alpha == 0.0) o.mlp_alpha = alpha;
  if (o.num_key_value_heads == 0) o.num_key_value_heads = o.num_attention_heads;
  if (o.intermediate_size == 0) o.intermediate_size = 4 * o.hidden_size;
  if (o.real_vocab_size == 0) o.real_vocab_size = o.vocab_size;
  if (o.position_bias_offsets == 0) o.position_bias_offsets = o.max_position_embeddings;
}

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

ModelOptions resolved(ModelOptions options) {
  std::visit(
      [](auto& own) {
        fill_in_(own);
        check(own);
      },
      options);
  return options;
}

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
