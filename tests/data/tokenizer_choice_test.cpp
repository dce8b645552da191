#include "data/tokenizer_choice.h"

#include "base/files.h"
#include "bridle/error.h"
#include "prose_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(TokenizerChoice, OpensAFolderWithAllOrSomeOfItsMerges) {
  const TemporaryFolder folder;
  test::small_byte_pairs()->save(folder);
  const std::string name = static_cast<const std::filesystem::path&>(folder).string();
  EXPECT_EQ(open_tokenizer({.name = name}, {})->size(), 260);
  EXPECT_EQ(open_tokenizer({.name = name, .merges = 1}, {})->size(), 258);
  EXPECT_ERROR(open_tokenizer({.name = name, .merges = 4}, {}), InputError,
               "merges must be from 0 to 3, got 4");
  EXPECT_ERROR(open_tokenizer({.name = name, .merges = -1}, {}), InputError, "from 0 to 3, got -1");
}

TEST(TokenizerChoice, CharactersComeFromTheText) {
  EXPECT_EQ(open_tokenizer({}, {}), nullptr);
  EXPECT_ERROR(open_tokenizer({.merges = 3}, {}), InputError,
               "characters are not merged; use --tokenizer gpt2");
}

TEST(TokenizerChoice, SaysWhatThereIs) {
  EXPECT_ERROR(open_tokenizer({.name = "gpt5"}, {}), InputError,
               "tokenizer 'gpt5' is none of characters, gpt2, or a folder with GPT-2's files");
}

}  // namespace
}  // namespace bridle
