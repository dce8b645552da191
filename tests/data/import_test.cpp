#include "bridle/data.h"
#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::FileSizeLimit;
using test::TemporaryData;
using test::write_shards;

TEST(ImportText, MakesADataSetThatCanBeReplacedOnRequest) {
  const TemporaryData data;
  write_file(data / "a.txt", "to be or not to be");
  write_file(data / "b.txt", "something else, longer");
  EXPECT_EQ(import_text("mine", {.text = data / "a.txt"}).outputs, 7);
  EXPECT_ERROR(import_text("mine", {.text = data / "b.txt"}), InputError, "--replace");
  EXPECT_EQ(open_data_set("mine").outputs, 7);
  import_text("mine", {.text = data / "b.txt", .replace = true});
  EXPECT_EQ(open_data_set("mine").outputs, 13);
  EXPECT_TRUE(open_data_set("mine").has_tokenizer);
}

TEST(ImportText, LeavesNothingBehindWhenItFails) {
  const TemporaryData data;
  write_file(data / "a.txt", std::string(100000, 'a') + "b");
  {
    const FileSizeLimit limit(50000);
    EXPECT_ERROR(import_text("mine", {.text = data / "a.txt"}), InputError, "File too large");
  }
  EXPECT_ERROR(open_data_set("mine"), InputError, "is not in");
  EXPECT_EQ(import_text("mine", {.text = data / "a.txt"}).outputs, 2);
}

TEST(ImportText, RefusesWhatItCannotDo) {
  const TemporaryData data;
  write_file(data / "a.txt", "to be or not to be");
  EXPECT_ERROR(import_text("shakespeare", {.text = data / "a.txt"}), InputError,
               "'shakespeare' is a known data set");
  EXPECT_ERROR(import_text("mine", {.text = data / "missing.txt"}), InputError, "missing.txt: No such file");
  EXPECT_ERROR(import_text("mine", {.text = data / "a.txt", .tokenizer = {.name = "gpt5"}}), InputError,
               "tokenizer 'gpt5'");
  EXPECT_ERROR(import_text("mine", {.text = data / "a.txt", .shard_tokens = 0}), InputError,
               "shard_tokens must be from 1 to 2147483647, got 0");
  EXPECT_ERROR(import_text("a/b", {.text = data / "a.txt"}), InputError, "cannot be a data set's name");
}

TEST(ImportTokens, RemembersWhereTheFilesAre) {
  const TemporaryData data;
  make_folder(data / "shards");
  write_shards(data / "shards", counting(1000, 50), 300);
  const std::string pattern = (data / "shards/train_00000[0-2].bin").string();
  const DataSet mine = import_tokens(
      "mine",
      {.train = pattern, .validation = (data / "shards/train_000003.bin").string(), .vocabulary_size = 50});
  EXPECT_EQ(mine.train.size(), 3U);
  EXPECT_EQ(open_split(mine, Split::train, {.sequence_length = 10})->size(), 890);
  EXPECT_EQ(open_split(mine, Split::validation, {.sequence_length = 10})->size(), 90);
  EXPECT_ERROR(import_tokens("other", {.train = pattern, .validation = pattern}), InputError,
               "is both for training and for validation");
  EXPECT_ERROR(import_tokens("other", {.train = (data / "nothing*").string()}), InputError,
               "no file matches");
  EXPECT_ERROR(import_tokens("other", {.train = pattern, .raw = true}), InputError, "without --raw");
  EXPECT_ERROR(import_tokens("other", {.train = pattern, .vocabulary_size = 70000}), InputError,
               "vocabulary_size must be from 1 to 65536");
}

TEST(ImportTokens, RefusesIdsBeyondTheVocabulary) {
  const TemporaryData data;
  make_folder(data / "shards");
  std::vector<Token> tokens = counting(1000, 50);
  tokens[777] = 50;
  write_shards(data / "shards", tokens, 300);
  const TokenImport import{.train = (data / "shards/*.bin").string(), .vocabulary_size = 50};
  EXPECT_ERROR(import_tokens("mine", import), InputError,
               "train_000002.bin: token 177 is 50, beyond the vocabulary of 50");
  EXPECT_ERROR(open_data_set("mine"), InputError, "is not in");
  write_shards(data / "shards", counting(1000, 50), 300);
  const TokenImport validation{.train = (data / "shards/train_000000.bin").string(),
                               .validation = (data / "shards/train_000003.bin").string(),
                               .vocabulary_size = 49};
  EXPECT_ERROR(import_tokens("mine", validation), InputError, "is 49, beyond the vocabulary of 49");
}

}  // namespace
}  // namespace bridle
