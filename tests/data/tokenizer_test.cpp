#include "bridle/tokenizer.h"

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(Tokenizer, IsOfTheKindThatItsFolderHolds) {
  const TemporaryFolder folder;
  make_character_tokenizer("abc")->save(folder);
  EXPECT_STREQ(load_tokenizer(folder)->name(), "characters");
  write_file(folder / "merges.txt", "");
  EXPECT_ERROR(load_tokenizer(folder), InputError, "[tokenizer]");  // byte pairs, but not GPT-2's
}

TEST(Tokenizer, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_ERROR(load_tokenizer(folder), InputError, "vocab.json: No such file");
}

}  // namespace
}  // namespace bridle
