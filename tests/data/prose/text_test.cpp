#include "data/prose/text.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(ProseText, RepairsWindowsEncodings) {
  EXPECT_EQ(from_windows_1252("caf\xE9 \x96 \x93no\x94\x81"), "café – “no”");
  EXPECT_EQ(repair_encoding("caf\xE9 \x85"), "café …");
  EXPECT_EQ(repair_encoding("café \xC2\x96 \xC2\x85"), "café – …");  // read as ISO 8859-1 once
  EXPECT_EQ(repair_encoding("plain, naïve 字"), "plain, naïve 字");
}

TEST(ProseText, RefusesWhereCharactersAreLost) {
  EXPECT_EQ(repair_encoding("caf\xEF\xBF\xBD"), std::nullopt);
  EXPECT_EQ(repair_encoding(std::string_view("a\0b", 3)), std::nullopt);
  EXPECT_EQ(repair_encoding(""), "");
}

TEST(ProseText, TidiesWhiteSpaceAndInvisibleCharacters) {
  EXPECT_EQ(tidy("\n\n  a \t\r\nb\tc\r\n\n\n\nd\xC2\xA0"
                 "e\xE2\x80\x8B\x07.\n\n"),
            "a\nb c\n\nd e.");
  EXPECT_EQ(tidy(" \n\t\n"), "");
  EXPECT_EQ(tidy(""), "");
}

TEST(ProseText, CollapsesSpaces) { EXPECT_EQ(collapse_spaces("\n a \t b\r\nc "), "a b c"); }

TEST(ProseText, GivesLinesWithoutTheirEnds) {
  std::string_view text = "a\r\n\nb";
  EXPECT_EQ(next_line(text), "a");
  EXPECT_EQ(next_line(text), "");
  EXPECT_EQ(next_line(text), "b");
  EXPECT_TRUE(text.empty());
}

TEST(ProseText, KnowsProseByItsLetters) {
  EXPECT_TRUE(is_prose("The jury said that it was so."));
  EXPECT_FALSE(is_prose("0x00: 12 34 56 78 | {}[]();"));
  EXPECT_FALSE(is_prose("это по-русски"));
  EXPECT_FALSE(is_prose(""));
}

TEST(ProseText, FingerprintsLettersAndDigitsOnly) {
  EXPECT_EQ(fingerprint("To be,\nor not!"), fingerprint("to be or  NOT"));
  EXPECT_NE(fingerprint("to be or not"), fingerprint("to be or now"));
  EXPECT_NE(fingerprint("1"), fingerprint("2"));
  EXPECT_NE(fingerprint("é"), fingerprint("è"));
  EXPECT_EQ(fingerprint("").size(), 64U);
}

}  // namespace
}  // namespace bridle
