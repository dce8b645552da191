#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"
#include "train/options.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

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

TEST(Recipes, AreRefusedWhereTheNanogptKeysMakeNoSense) {
  const DataSet text{.name = "text", .kind = DataKind::tokens, .outputs = 65};
  const auto refused = [&](const char* what, auto change) {
    RunOptions options;
    change(options);
    EXPECT_ERROR(resolved(options, text), InputError, what);
  };
  refused("training.grow_windows needs", [](RunOptions& o) { o.training.grow_windows = true; });
  refused("training.evaluate_tokens must be at least 0, got -1",
          [](RunOptions& o) { o.training.evaluate_tokens = -1; });
  refused("constraint.coupling_room must be at least 1",
          [](RunOptions& o) { o.constraint.coupling_room = 0.9; });
  refused("constraint.power_rounds must be from 1 to 1000000, got 0",
          [](RunOptions& o) { o.constraint.options.power_rounds = 0; });
  refused("constraint.head_sigma_max must be positive, or 0 for sigma_max, got -1",
          [](RunOptions& o) { o.constraint.head_sigma_max = -1.0; });
}

TEST(Recipes, AreNotNeededForAModelOfAProgramsOwn) {
  RunOptions options;
  options.constraint.lipschitz = 5.0;
  const RunOptions complete = resolved_for(options, InputKind::vectors);
  EXPECT_EQ(complete.constraint.heads, HeadBlocks::kv);
  EXPECT_EQ(complete.constraint.prove_every, 1);
  options.data.token_noise = 0.5;
  EXPECT_ERROR(resolved_for(options, InputKind::vectors), InputError,
               "data.token_noise must be 0 for images");
  EXPECT_EQ(resolved_for(options, InputKind::tokens).data.token_noise, 0.5);
  options.training.steps = 0;
  EXPECT_ERROR(resolved_for(options, InputKind::tokens), InputError,
               "training.steps must be at least 1, got 0");
}

}  // namespace
}  // namespace bridle
