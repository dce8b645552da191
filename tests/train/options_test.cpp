#include "train/options.h"

#include <set>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(Recipes, AreReadSetAndPrinted) {
  const TemporaryFolder folder;
  write_file(folder / "r.toml", "[model]\nhidden_size = 64\n[constraint]\nmethod = \"hammer\"\n");
  const RunOptions options = read_recipe(folder / "r.toml", {"training.steps=7", "constraint.sigma_max=3"});
  EXPECT_EQ(options.model.transformer.hidden_size, 64);
  EXPECT_EQ(options.constraint.options.method, "hammer");
  EXPECT_EQ(options.training.steps, 7);
  EXPECT_EQ(options.constraint.sigma_max, 3.0);
  write_file(folder / "copy.toml", recipe_text(options));
  EXPECT_EQ(recipe_text(read_recipe(folder / "copy.toml")), recipe_text(options));
}

TEST(Recipes, RefuseUnknownKeys) {
  const TemporaryFolder folder;
  write_file(folder / "r.toml", "[model]\nhiden_size = 64\n");
  EXPECT_ERROR(read_recipe(folder / "r.toml"), InputError, "did you mean 'model.hidden_size'?");
  EXPECT_ERROR(read_recipe(folder / "missing.toml"), InputError, "missing.toml: No such file");
}

// Recipes, --set and config.toml speak of choices in these words.
TEST(Recipes, KeepTheWordsOfTheirChoices) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::vector<std::string>>> choices{
      {"data.order", {"random", "shuffled", "sequential"}},
      {"optimizer.method", {"muon", "adamw"}},
      {"optimizer.ns_coefficients", {"six_step", "five_step", "classic"}},
      {"optimizer.embedding", {"auto", "row_normalize", "adam"}},
      {"optimizer.residual_sensitivity", {"1", "2", "literal"}},
      {"schedule.shape", {"constant", "linear", "cosine", "stable_decay"}},
      {"constraint.heads", {"auto", "whole", "kv", "qkv"}},
      {"constraint.formula", {"sound", "paper"}},
      {"training.precision", {"float32", "bfloat16"}}};
  write_file(folder / "empty.toml", "");
  for (const auto& [key, words] : choices) {
    for (const std::string& word : words) {
      const std::string text = recipe_text(read_recipe(folder / "empty.toml", {key + "=" + word}));
      const std::string line = key.substr(key.find('.') + 1) + " = '" + word + "'";
      EXPECT_NE(text.find(line), std::string::npos) << key << " " << word;
      write_file(folder / "copy.toml", text);
      EXPECT_EQ(recipe_text(read_recipe(folder / "copy.toml")), text);
    }
    EXPECT_ERROR(read_recipe(folder / "empty.toml", {key + "=other"}), InputError,
                 key + " must be one of " + words.front() + ", ");
  }
}

// A run whose model and data a program has made has no keys of a recipe's [model] and data set in its config.toml.
TEST(Configs, WithoutARecipeHoldTheRest) {
  const TemporaryFolder folder;
  RunOptions options;
  options.training.steps = 7;
  const std::string text = config_without_recipe(options);
  EXPECT_EQ(text.find("[model]"), std::string::npos);
  EXPECT_EQ(text.find("name ="), std::string::npos);
  write_file(folder / "c.toml", text);
  EXPECT_EQ(read_config_without_recipe(folder / "c.toml").training.steps, 7);
  EXPECT_ERROR(read_config(folder / "c.toml"), InputError, "whose model and data a program has made");
  write_file(folder / "c.toml", text.substr(0, text.find("[training]")));
  EXPECT_ERROR(read_config_without_recipe(folder / "c.toml"), InputError,
               "must hold every key, and 13 are missing");
  write_file(folder / "c.toml", recipe_text(options));
  EXPECT_ERROR(read_config_without_recipe(folder / "c.toml"), InputError, "is of a recipe's run");
}

TEST(Recipes, HaveUniqueKeysWithHelp) {
  RunOptions options;
  std::set<std::string> keys;
  for (const Setting& setting : run_settings(options)) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_FALSE(setting.help.empty()) << setting.key;
  }
  EXPECT_GT(keys.size(), 60U);
}

}  // namespace
}  // namespace bridle
