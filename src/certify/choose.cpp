#include "certify/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/nearest.h"
#include "bridle/error.h"
#include "certify/cap_norms.h"

namespace bridle {
namespace {

const std::vector<std::string> kKeys{
    "position_bias", "attention_output_scale", "softmax_scale", "attention_alpha",
    "mlp_alpha",     "num_hidden_layers",      "final_scale"};

std::set<std::string> parse(const std::string& text) {
  if (text == "all") return {kKeys.begin(), kKeys.end()};
  std::set<std::string> keys;
  size_t start = 0;
  while ((start = text.find_first_not_of(" ,", start)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(" ,", start), text.size());
    const std::string key = text.substr(start, end - start);
    find_word(key, kKeys, "settings", "key of the model that a budget can choose");
    keys.insert(key);
    start = end;
  }
  return keys;
}

int64_t depth_for(double lipschitz) { return lipschitz < 4.0 ? 1 : lipschitz < 100.0 ? 2 : 3; }

// The bound of this model with every cap at 1.
double bound_of_units(const ModelOptions& model, const ChooseOptions& options) {
  const auto empty = make_model(model, std::nullopt);
  std::vector<Param> params = empty->params();
  std::vector<double> caps;
  for (Param& param : params) {
    const bool apart =
        std::find(options.by_head.begin(), options.by_head.end(), param.role) != options.by_head.end();
    if (apart) param.blocks = model.num_attention_heads;
    caps.push_back(is_table(param.role) ? options.embedding_cap : is_matrix(param.role) ? 1.0 : 0.0);
  }
  CapNorms norms(params, caps);
  Walk walk(norms);
  try {
    return empty->bound(empty->input_bound(norms), walk).lipschitz.to_double();
  } catch (const PromiseError& error) {  // the recipe's doing, not a bound that fails
    throw InputError("budget", fmt::format("{}; take it out of the model (norms, biases, learnable scales)",
                                           error.what()));
  }
}

}  // namespace

ModelOptions chosen_for(ModelOptions model, const ChooseOptions& options) {
  const std::set<std::string> keys = parse(options.keys);
  if (keys.empty()) return model;
  if (options.lipschitz == 0.0)
    throw InputError("settings", "constraint.choose needs a budget: name one with --lipschitz");
  const bool transformer = model.kind == "transformer";
  const auto chosen = [&](const char* key) { return transformer && keys.contains(key); };
  if (chosen("position_bias")) model.position_bias = true;
  if (chosen("attention_output_scale")) model.attention_output_scale = 1.0;
  if (chosen("softmax_scale")) model.softmax_scale = 1.0;
  if (chosen("attention_alpha")) model.attention_alpha = 0.5;
  if (chosen("mlp_alpha")) model.mlp_alpha = 0.5;
  if (chosen("num_hidden_layers")) model.num_hidden_layers = depth_for(options.lipschitz);
  if (keys.contains("final_scale")) {
    model.final_scale = 1.0;
    model.final_scale = options.lipschitz / bound_of_units(model, options);
  }
  return model;
}

}  // namespace bridle
