#include "certify/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/nearest.h"

namespace bridle {
namespace {

const std::vector<std::string> kKeys{"position_bias",     "logit_bias",      "attention_output_scale",
                                     "softmax_scale",     "attention_alpha", "mlp_alpha",
                                     "num_hidden_layers", "final_scale"};

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

}  // namespace

ModelRecipe chosen_for_budget(ModelRecipe recipe, const std::string& keys) {
  TransformerOptions& model = recipe.transformer;
  const std::set<std::string> chosen = parse(keys);
  if (chosen.contains("position_bias")) model.position_bias = true;
  if (chosen.contains("logit_bias")) model.logit_bias = true;
  if (chosen.contains("attention_output_scale")) model.attention_output_scale = 1.0;
  if (chosen.contains("softmax_scale")) model.softmax_scale = 1.0;
  if (chosen.contains("attention_alpha")) model.attention_alpha = 0.5;
  if (chosen.contains("mlp_alpha")) model.mlp_alpha = 0.5;
  if (chosen.contains("num_hidden_layers")) model.num_hidden_layers = 2;
  if (chosen.contains("final_scale")) model.final_scale = recipe.mlp.final_scale = 1.0;
  return recipe;
}

}  // namespace bridle
