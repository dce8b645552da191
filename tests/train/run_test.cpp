#include "bridle/run.h"

#include "bridle/error.h"
#include "data/dataset.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::TemporaryData;

TEST(Runs, AreOpenedFromTheirFolder) {
  const TemporaryData data;
  const auto run = test::short_run(data);
  EXPECT_EQ(run.model->shape().size, 32);
  EXPECT_EQ(run.tokenizer->size(), run.model->shape().outputs);
}

TEST(Runs, AreNotGivenTokensThatTheirModelDoesNotKnow) {
  const TemporaryData data;
  auto run = test::short_run(data);
  make_folder(data / "shards");
  test::write_shards(data / "shards", test::counting(1000, 50));
  import_tokens("shards", {.train = (data / "shards/train_000000.bin").string(), .vocabulary_size = 50});
  run.options.data.name = "shards";
  run.tokenizer = nullptr;
  EXPECT_ERROR(open_run_split(run, Split::train), InputError,
               "'shards' has token ids up to 49, and the model of");
}

TEST(Runs, ReadOneSourceOfSeveral) {
  const TemporaryData data;
  auto run = test::short_run(data);
  const DataSet words = open_data_set(run.options.data.name);
  build_data_set({.name = "two"}, [&](const std::filesystem::path& folder, const std::filesystem::path&) {
    DataSet two{.outputs = words.outputs, .train = words.train, .sources = {{.name = "a"}, {.name = "b"}}};
    const DataFile whole = words.validation.at(0);
    for (const char* name : {"a", "b"}) two.validation.push_back({whole.path, whole.count, name});
    std::filesystem::copy_file(words.folder / "vocab.json", folder / "vocab.json");
    return two;
  });
  run.options.data.name = "two";
  const auto targets = [&](const std::string& source) {
    return evaluate(*run.model, open_run_split(run, Split::validation, source), {.order = {.batch_size = 8}})
        .targets;
  };
  EXPECT_EQ(2 * targets("a") + 1, targets(""));  // the last token of a is followed by the first of b
  EXPECT_EQ(targets("a"), targets("b"));
  EXPECT_ERROR(targets("c"), InputError, "source must be one of a, b, got c");
}

TEST(Runs, SayWhatIsMissing) {
  const TemporaryData data;
  test::import_words(data);
  EXPECT_ERROR(open_run(data / "nothing"), InputError, "is not a folder");
  const Trainer trainer(test::small_run(), data / "run");
  EXPECT_ERROR(open_run(data / "run"), InputError, "has not saved yet");
}

}  // namespace
}  // namespace bridle
