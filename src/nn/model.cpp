// Options of models: what is filled in, what is refused; and making one.
#include <ATen/ops/abs.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/error.h"
#include "bridle/nn.h"
#include "nn/activation.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/transformer.h"

namespace bridle {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 24U;  // of anything that is counted: products of two fit

void require(bool condition, const std::string& message) {
  if (!condition) throw InputError("model", message);
}

void check_one_of(const char* key, const std::string& value, std::initializer_list<const char*> allowed) {
  std::string list;
  for (const char* name : allowed) {
    if (value == name) return;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  require(false, fmt::format("{} = '{}'; it is one of {}", key, value, list));
}

double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }  // NaN wins: it must be seen

void check_transformer(const ModelOptions& o) {
  const std::pair<const char*, int64_t> counts[] = {{"vocab_size", o.vocab_size},
                                                    {"hidden_size", o.hidden_size},
                                                    {"num_hidden_layers", o.num_hidden_layers},
                                                    {"num_attention_heads", o.num_attention_heads},
                                                    {"intermediate_size", o.intermediate_size},
                                                    {"max_position_embeddings", o.max_position_embeddings},
                                                    {"position_bias_offsets", o.position_bias_offsets},
                                                    {"position_bias_dilation", o.position_bias_dilation}};
  for (const auto& [key, value] : counts)
    require(value >= 1 && value <= kLargestSize,
            fmt::format("{} = {}; it is between 1 and {}", key, value, kLargestSize));
  require(o.real_vocab_size >= 1 && o.real_vocab_size <= o.vocab_size,
          fmt::format("real_vocab_size = {}; it is between 1 and vocab_size = {}", o.real_vocab_size,
                      o.vocab_size));
  require(o.hidden_size % o.num_attention_heads == 0,
          fmt::format("hidden_size = {} is not a multiple of num_attention_heads = {}", o.hidden_size,
                      o.num_attention_heads));
  require(o.positions != "rope" || o.hidden_size / o.num_attention_heads % 2 == 0,
          fmt::format("heads of size {}; rope turns pairs, so it must be even",
                      o.hidden_size / o.num_attention_heads));
  require(std::isfinite(o.position_bias_start),
          fmt::format("position_bias_start = {}; it is a number", o.position_bias_start));
  check_one_of("positions", o.positions, {"rope", "learned", "none"});
  check_one_of("residual", o.residual, {"convex", "plain"});
  check_one_of("norm", o.norm, {"none", "tanh", "rms_norm", "layer_norm"});
  check_one_of("hidden_act", o.hidden_act, {"gelu", "gelu_tanh", "relu"});
  require(o.activation_divisor > 0.0 && std::isfinite(o.activation_divisor),
          fmt::format("activation_divisor = {}; it must be positive", o.activation_divisor));
  require(o.rope_theta > 0.0, fmt::format("rope_theta = {}; it must be positive", o.rope_theta));
  require(o.norm_epsilon >= 0.0 && std::isfinite(o.norm_epsilon),
          fmt::format("norm_epsilon = {}; it cannot be negative", o.norm_epsilon));
  require(o.dropout >= 0.0 && o.dropout < 1.0, fmt::format("dropout = {}; it is a share below 1", o.dropout));
  for (const double value :
       {o.softmax_scale, o.attention_output_scale, o.attention_alpha, o.mlp_alpha, o.final_scale})
    require(std::isfinite(value),
            "softmax_scale, attention_output_scale, the alphas and final_scale must be finite");
}

std::unique_ptr<Model> model_from(const ModelOptions& options, const WeightOrigin& origin) {
  const ModelOptions complete = resolved(options);
  if (complete.kind == "mlp") return std::make_unique<Mlp>(complete, origin);
  return std::make_unique<Transformer>(complete, origin);
}

}  // namespace

ModelOptions resolved(ModelOptions options) {
  check_one_of("kind", options.kind, {"transformer", "mlp"});
  check_one_of("initialization", options.initialization, {"orthogonal", "normal"});
  check_one_of("mlp_activation", options.mlp_activation, {"relu", "maxmin"});
  if (options.kind == "mlp") {
    require(options.layer_sizes.size() >= 2,
            fmt::format("layer_sizes has {} entries; it needs input and output", options.layer_sizes.size()));
    require(options.input_bound > 0.0 && std::isfinite(options.input_bound),
            fmt::format("input_bound = {}; it is a positive number", options.input_bound));
    for (size_t i = 1; options.mlp_activation == "maxmin" && i + 1 < options.layer_sizes.size(); ++i)
      require(options.layer_sizes[i] % 2 == 0,
              fmt::format("a hidden layer of size {}; maxmin takes pairs, so it must be even",
                          options.layer_sizes[i]));
    for (const int64_t size : options.layer_sizes)
      require(size >= 1 && size <= kLargestSize,
              fmt::format("layer_sizes holds {}; sizes are at least 1 and at most {}", size, kLargestSize));
    require(std::isfinite(options.final_scale),
            fmt::format("final_scale = {}; it must be finite", options.final_scale));
    return options;
  }
  require(options.mlp_activation == "relu",
          fmt::format("mlp_activation = '{}' is for kind = 'mlp'; a transformer's is hidden_act",
                      options.mlp_activation));
  const double alpha =
      options.num_hidden_layers < 1 ? 0.0 : 1.0 / (2.0 * static_cast<double>(options.num_hidden_layers));
  require(options.num_hidden_layers <= kLargestSize && options.hidden_size <= kLargestSize,
          "num_hidden_layers and hidden_size are far too large");
  if (options.attention_alpha == 0.0) options.attention_alpha = alpha;
  if (options.mlp_alpha == 0.0) options.mlp_alpha = alpha;
  if (options.intermediate_size == 0) options.intermediate_size = 4 * options.hidden_size;
  if (options.real_vocab_size == 0) options.real_vocab_size = options.vocab_size;
  if (options.position_bias_offsets == 0) options.position_bias_offsets = options.max_position_embeddings;
  check_transformer(options);
  return options;
}

std::unique_ptr<Model> make_model(const ModelOptions& options, std::optional<uint64_t> seed,
                                  at::ScalarType dtype) {
  return model_from(options, {.seed = seed, .dtype = dtype});
}

std::unique_ptr<Model> make_model_from(const WeightSource& source, const ModelOptions& options) {
  return model_from(options, {.given = source});
}

bool Model::fusible(const Pass& pass) const {
  return pass.dtype == at::kBFloat16 && pass.statistics == nullptr && pass.cache == nullptr &&
         std::all_of(params_.begin(), params_.end(), [](const Param& param) {
           return param.tensor.is_cpu() && param.tensor.scalar_type() == at::kFloat &&
                  param.tensor.is_contiguous();
         });
}

Bound Walk::pass(const std::string& name, Bound bound) {
  if (neighbourhood != nullptr) {
    const auto seen = neighbourhood->activations.find(name);
    if (seen != neighbourhood->activations.end())
      bound.activation = min(bound.activation, seen->second + bound.lipschitz * neighbourhood->radius);
  }
  layers.push_back({name, bound});
  return bound;
}

void ActivationStatistics::record(const std::string& name, const at::Tensor& x) {
  const at::Tensor values = x.detach().to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  Layer& layer = layers[name];
  layer.largest_rms = larger(layer.largest_rms, values.square().mean(-1).max().sqrt().item<double>());
  layer.largest_entry = larger(layer.largest_entry, values.abs().max().item<double>());
}

}  // namespace bridle
