#include "data/characters.h"

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(Characters, IdsFollowTheCodePoints) {
  const auto tokenizer = make_character_tokenizer("hello, wörld — 🙂\n");
  EXPECT_EQ(tokenizer->size(), 13);
  EXPECT_EQ(tokenizer->encode("\n ,"), (std::vector<Token>{0, 1, 2}));
  EXPECT_EQ(tokenizer->encode("ö—🙂"), (std::vector<Token>{10, 11, 12}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("wörld 🙂")), "wörld 🙂");
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(Characters, SayWhichByteIsNotUtf8) {
  EXPECT_ERROR(make_character_tokenizer("abc\xff"), InputError, "byte 3 (0xff)");
  EXPECT_ERROR(make_character_tokenizer("ab\xc3"), InputError, "byte 2 (0xc3)");
  EXPECT_ERROR(make_character_tokenizer(""), InputError, "empty");
}

TEST(Characters, SayWhichCharacterTheyDoNotKnow) {
  const auto tokenizer = make_character_tokenizer("abc");
  EXPECT_ERROR(tokenizer->encode("aé"), InputError, "'é' (U+00E9) at byte 1 is not in the vocabulary of 3");
  const std::vector<Token> beyond{3};
  EXPECT_ERROR(tokenizer->decode(beyond), InputError, "id 3");
}

TEST(Characters, AreStoredAndReadBack) {
  const TemporaryFolder folder;
  const auto tokenizer = make_character_tokenizer("zaé\"\\\n🙂");
  tokenizer->save(folder);
  const auto copy = load_character_tokenizer(folder);
  EXPECT_EQ(copy->encode("🙂\né\"\\az"), tokenizer->encode("🙂\né\"\\az"));
}

TEST(Characters, RefuseADamagedVocabulary) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* text, const char* part) {
    write_file(folder / "vocab.json", text);
    EXPECT_ERROR(load_character_tokenizer(folder), InputError, part);
  };
  refused("", "not a JSON object");
  refused("{\"a\": 0", "not a JSON object");
  refused("[1]", "not a JSON object");
  refused("{\"a\": 0, \"b\": 0}", "each once");
  refused("{\"a\": 0, \"b\": 2}", "'b' has id 2");
  refused("{\"a\": -1}", "'a' has id -1");
  refused("{\"ab\": 0}", "'ab' is not one character");
  refused("{\"\": 0}", "is not one character");
}

}  // namespace
}  // namespace bridle
