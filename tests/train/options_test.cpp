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

DataSet four_images(const TemporaryFolder& folder) {
  std::string bytes;
  for (int i = 0; i < 4; ++i)
    bytes += '\0' + std::string(3072, static_cast<char>(i % 2 == 0 ? 51 : 102));  // mean 0.3, deviation 0.1
  write_file(folder / "images", bytes);
  return {.name = "images", .kind = DataKind::images, .outputs = 10, .train = {{folder / "images", 4}}};
}

TEST(Recipes, WidenTheDomainOfStandardisedPixels) {
  const TemporaryFolder folder;
  DataSet data = four_images(folder);
  RunOptions options;
  options.model.kind = ModelKind::mlp;
  EXPECT_EQ(resolved(options, data).model.mlp.input_bound, 1.0);
  options.data.standardize = true;
  EXPECT_NEAR(resolved(options, data).model.mlp.input_bound, 7.0, 1e-3);  // a white pixel: (1 − 0.3)/0.1
  data.train.clear();
  EXPECT_ERROR(resolved(options, data), InputError, "no images");
}

TEST(Recipes, MoveImagesAndNoTokens) {
  const TemporaryFolder folder;
  const DataSet images = four_images(folder), text{.name = "text", .kind = DataKind::tokens, .outputs = 65};
  RunOptions options;
  options.model.kind = ModelKind::mlp;
  for (const int64_t shift : {-1, 32}) {
    options.data.shift = shift;
    EXPECT_ERROR(resolved(options, images), InputError, "data.shift");
  }
  options.data.shift = 31;
  resolved(options, images);
  options.model.kind = ModelKind::transformer;
  EXPECT_ERROR(resolved(options, text), InputError, "are for images");
  options.data.shift = 0;
  options.data.mirror = true;
  EXPECT_ERROR(resolved(options, text), InputError, "are for images");
}

// Every file in recipes/ must be one that `bridle train` takes.
TEST(Recipes, InTheFolderAreAllGood) {
  const DataSet text{.name = "text", .kind = DataKind::tokens, .outputs = 65};
  const TemporaryFolder folder;
  const DataSet images = four_images(folder);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BRIDLE_RECIPES)) {
    const RunOptions options = read_recipe(entry.path());
    const DataSet& data = options.model.kind == ModelKind::mlp ? images : text;
    const RunOptions once = resolved(options, data);
    EXPECT_EQ(differing_settings(resolved(once, data), once), "") << entry.path();  // as a resume finds it
    ++count;
  }
  EXPECT_GE(count, 19);
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
