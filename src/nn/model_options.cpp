#include "nn/model_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "bridle/error.h"
#include "bridle/nn.h"
#include "nn/transformer_options.h"

namespace bridle {

const char* word(ModelKind kind) {
  switch (kind) {
    case ModelKind::transformer:
      return "transformer";
    case ModelKind::mlp:
      return "mlp";
  }
  return nullptr;
}

const char* word(Initialization initialization) {
  switch (initialization) {
    case Initialization::orthogonal:
      return "orthogonal";
    case Initialization::normal:
      return "normal";
    case Initialization::xavier_spectral:
      return "xavier_spectral";
  }
  return nullptr;
}

Setting initialization_setting(Initialization& place) {
  return {"initialization", choice(&place),
          "of weights: the paper's is orthogonal, nanoGPT's normal, LipsFormer's xavier_spectral"};
}

Setting final_scale_setting(double& place) {
  return {"final_scale", &place, "multiplies the logits", kFinite};
}

namespace {

Settings mlp_settings(MlpOptions& o) {
  return {{"layer_sizes", &o.layer_sizes, "mlp: all sizes; [] takes input and classes from the data"},
          {"mlp_activation", choice(&o.activation), "mlp: between the layers, as hidden_act"},
          {"bias", &o.bias, "linear layers have a bias"},
          {"input_bound", &o.input_bound, "mlp: RMS of every input; the data decides", kPositive},
          initialization_setting(o.initialization),
          final_scale_setting(o.final_scale)};
}

void resolve_(MlpOptions& o) {
  check_ranges(mlp_settings(o), "model");
  require(o.layer_sizes.size() >= 2,
          fmt::format("layer_sizes must have at least 2 entries, input and output, got {}",
                      o.layer_sizes.size()));
  require(!o.bias || o.activation != ActivationKind::relu_squared,
          "bias must be false for relu_squared, whose bound grows with what a bias adds, got true");
  for (size_t i = 1; o.activation == ActivationKind::maxmin && i + 1 < o.layer_sizes.size(); ++i)
    require(o.layer_sizes[i] % 2 == 0,
            fmt::format("a hidden layer's size must be even for maxmin, which sorts pairs, got {}",
                        o.layer_sizes[i]));
  for (const int64_t size : o.layer_sizes)
    require(size >= 1 && size <= kLargestSize,
            fmt::format("layer_sizes must be from 1 to {}, got {}", kLargestSize, size));
}

}  // namespace

void require(bool condition, const std::string& message) {
  if (!condition) throw InputError("model", message);
}

ModelOptions resolved(ModelOptions options) {
  std::visit([](auto& own) { resolve_(own); }, options);
  return options;
}

Settings model_settings(ModelOptions& options) {
  struct Keys {
    Settings operator()(MlpOptions& o) const { return mlp_settings(o); }
    Settings operator()(TransformerOptions& o) const { return transformer_settings(o); }
  };
  return std::visit(Keys{}, options);
}

Settings recipe_settings(ModelRecipe& recipe, const std::string& prefix) {
  Settings list{{"kind", choice(&recipe.kind), "of model"},
                {"hidden_sizes", &recipe.mlp.hidden_sizes, "mlp: sizes of the hidden layers"}};
  const Settings mlp = mlp_settings(recipe.mlp);
  Settings transformer = transformer_settings(recipe.transformer);
  for (const Setting& own : mlp) {
    const auto shared = std::find_if(transformer.begin(), transformer.end(),
                                     [&](const Setting& other) { return other.key == own.key; });
    if (shared == transformer.end()) {
      list.push_back(own);
      continue;
    }
    shared->copies.push_back(own.place);
    if (recipe.kind == ModelKind::mlp)
      std::swap(shared->place, shared->copies.back());  // what counts is shown
  }
  list.insert(list.end(), transformer.begin(), transformer.end());
  for (Setting& setting : list) setting.key = prefix + setting.key;
  return list;
}

}  // namespace bridle
