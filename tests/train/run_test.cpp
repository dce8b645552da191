#include "bridle/run.h"

#include "bridle/error.h"
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

TEST(Runs, SayWhatIsMissing) {
  const TemporaryData data;
  test::import_words(data);
  EXPECT_ERROR(open_run(data / "nothing"), InputError, "is not a folder");
  const Trainer trainer(test::small_run(), data / "run");
  EXPECT_ERROR(open_run(data / "run"), InputError, "has not saved yet");
}

}  // namespace
}  // namespace bridle
