#include "nn/model_options.h"

#include <gtest/gtest.h>

#include <set>

#include "base/words.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(ModelOptionKeys, AreUniqueAndExplained) {
  ModelRecipe recipe;
  std::set<std::string> keys;
  for (const Setting& setting : recipe_settings(recipe, "model.")) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_TRUE(setting.key.starts_with("model."));
    EXPECT_FALSE(setting.help.empty()) << setting.key;
  }
  EXPECT_TRUE(keys.contains("model.attention_alpha"));
  EXPECT_TRUE(keys.contains("model.num_key_value_heads"));
}

// config.json has the keys of its kind, a recipe those of both.
TEST(ModelOptionKeys, OfARecipeAreThoseOfBothKinds) {
  ModelOptions mlp = MlpOptions{}, transformer = TransformerOptions{};
  std::set<std::string> apart{"kind", "hidden_sizes"}, together;
  for (ModelOptions* options : {&mlp, &transformer})
    for (const Setting& setting : model_settings(*options)) apart.insert(setting.key);
  ModelRecipe recipe;
  for (const Setting& setting : recipe_settings(recipe, "")) together.insert(setting.key);
  EXPECT_EQ(together, apart);
}

TEST(ModelOptionKeys, ThatBothKindsHaveReachBoth) {
  ModelRecipe recipe;
  const Settings settings = recipe_settings(recipe, "model.");
  read_toml(settings, "[model]\nfinal_scale = 3\n", "r.toml");
  set_value(settings, "model.initialization=normal");
  EXPECT_EQ(recipe.transformer.final_scale, 3.0);
  EXPECT_EQ(recipe.mlp.final_scale, 3.0);
  EXPECT_EQ(recipe.transformer.initialization, Initialization::normal);
  EXPECT_EQ(recipe.mlp.initialization, Initialization::normal);
}

TEST(ModelOptionKeys, ShowTheKindThatCounts) {
  ModelRecipe recipe{.kind = ModelKind::mlp, .mlp = {.final_scale = 3.0}};
  const auto shown = [&recipe] {
    for (const Setting& setting : recipe_settings(recipe, ""))
      if (setting.key == "final_scale") return value_text(setting);
    return std::string();
  };
  EXPECT_EQ(shown(), "3.0");
  recipe.kind = ModelKind::transformer;
  EXPECT_EQ(shown(), "1.0");
}

TEST(ModelOptionKeys, TakeWordsAndNameThemAllWhereOneIsWrong) {
  ModelRecipe recipe;
  const Settings settings = recipe_settings(recipe, "model.");
  set_value(settings, "model.kind=mlp");
  set_value(settings, "model.mlp_activation=maxmin");
  set_value(settings, "model.positions=\"learned\"");
  EXPECT_EQ(recipe.kind, ModelKind::mlp);
  EXPECT_EQ(recipe.mlp.activation, ActivationKind::maxmin);
  EXPECT_EQ(recipe.transformer.activation, ActivationKind::gelu_tanh);
  EXPECT_EQ(recipe.transformer.positions, PositionKind::learned);
  EXPECT_ERROR(set_value(settings, "model.norm=batch_norm"), InputError,
               "model.norm must be one of none, tanh, rms_norm, layer_norm, center_norm, got");
  EXPECT_ERROR(read_toml(settings, "[model]\nkind = \"cnn\"\n", "r.toml"), InputError,
               "r.toml: model.kind must be one of transformer, mlp, got");
  EXPECT_EQ(recipe.kind, ModelKind::mlp);
}

template <class Enum>
void expect_words() {
  std::set<std::string> words;
  for (const Enum value : all_values<Enum>()) {
    EXPECT_TRUE(words.insert(word(value)).second) << word(value);
    EXPECT_EQ(value_of<Enum>(word(value)), value) << word(value);
  }
  EXPECT_GE(words.size(), 2U);
  EXPECT_EQ(value_of<Enum>("other"), std::nullopt);
}

TEST(Words, OfEveryEnumAreDifferentAndReadBack) {
  expect_words<ModelKind>();
  expect_words<ActivationKind>();
  expect_words<NormLayer>();
  expect_words<ResidualKind>();
  expect_words<PositionKind>();
  expect_words<Initialization>();
}

// Recipes, config.json and certificates that were written before speak in these.
TEST(Words, StayWhatTheyWere) {
  EXPECT_EQ(value_of<ModelKind>("transformer"), ModelKind::transformer);
  EXPECT_EQ(value_of<ModelKind>("mlp"), ModelKind::mlp);
  EXPECT_EQ(value_of<ActivationKind>("gelu"), ActivationKind::gelu);
  EXPECT_EQ(value_of<ActivationKind>("gelu_tanh"), ActivationKind::gelu_tanh);
  EXPECT_EQ(value_of<ActivationKind>("relu"), ActivationKind::relu);
  EXPECT_EQ(value_of<ActivationKind>("maxmin"), ActivationKind::maxmin);
  EXPECT_EQ(value_of<NormLayer>("none"), NormLayer::none);
  EXPECT_EQ(value_of<NormLayer>("tanh"), NormLayer::tanh);
  EXPECT_EQ(value_of<NormLayer>("rms_norm"), NormLayer::rms_norm);
  EXPECT_EQ(value_of<NormLayer>("layer_norm"), NormLayer::layer_norm);
  EXPECT_EQ(value_of<ResidualKind>("convex"), ResidualKind::convex);
  EXPECT_EQ(value_of<ResidualKind>("plain"), ResidualKind::plain);
  EXPECT_EQ(value_of<ResidualKind>("quadrature"), ResidualKind::quadrature);
  EXPECT_EQ(value_of<PositionKind>("rope"), PositionKind::rope);
  EXPECT_EQ(value_of<PositionKind>("learned"), PositionKind::learned);
  EXPECT_EQ(value_of<PositionKind>("none"), PositionKind::none);
  EXPECT_EQ(value_of<Initialization>("orthogonal"), Initialization::orthogonal);
  EXPECT_EQ(value_of<Initialization>("normal"), Initialization::normal);
}

}  // namespace
}  // namespace bridle
