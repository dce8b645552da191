#include "data/utf8.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

std::string utf8(char32_t value) {
  std::string text;
  append_utf8(value, text);
  return text;
}

TEST(Utf8, ReadsEveryCodePointThatItWrites) {
  for (char32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    const std::string text = utf8(value);
    const CodePoint point = decode_utf8(text, 0);
    ASSERT_EQ(point.value, value);
    ASSERT_EQ(point.length, text.size());
    ASSERT_EQ(point.length, value < 0x80 ? 1U : value < 0x800 ? 2U : value < 0x10000 ? 3U : 4U);
  }
}

TEST(Utf8, WritesKnownBytes) {
  EXPECT_EQ(utf8(U'A'), "A");
  EXPECT_EQ(utf8(U'é'), "\xC3\xA9");
  EXPECT_EQ(utf8(U'€'), "\xE2\x82\xAC");
  EXPECT_EQ(utf8(U'🙂'), "\xF0\x9F\x99\x82");
}

// Every sequence of two bytes, and of three with each end of what may follow: whole, one too short, or not UTF-8.
TEST(Utf8, TakesNothingBesidesWhatItWrites) {
  int valid = 0;
  for (int lead = 0x80; lead <= 0xFF; ++lead) {
    for (int second = 0; second <= 0xFF; ++second) {
      for (const int third : {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF}) {
        for (const int fourth : {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF}) {
          const std::string text{static_cast<char>(lead), static_cast<char>(second), static_cast<char>(third),
                                 static_cast<char>(fourth)};
          const CodePoint point = decode_utf8(text, 0);
          if (point.length == 0) continue;
          ASSERT_EQ(utf8(point.value), text.substr(0, point.length));
          ++valid;
        }
      }
    }
  }
  const int two = 30 * 64 * 36, three = (16 * 64 - 32 - 32) * 2 * 6, four = (5 * 64 - 16 - 48) * 2 * 2;
  EXPECT_EQ(valid, two + three + four);
}

TEST(Utf8, RefusesWhatLooksLikeIt) {
  using Texts = std::vector<std::string>;
  const Texts no_start = {"\x80", "\xBF", "\xFF"};
  const Texts overlong = {"\xC0\x80",     "\xC1\xBF",         "\xE0\x80\x80",
                          "\xE0\x9F\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF"};
  const Texts surrogates = {"\xED\xA0\x80", "\xED\xBF\xBF"};
  const Texts above_10ffff = {"\xF4\x90\x80\x80", "\xF5\x80\x80\x80"};
  const Texts cut_short = {"\xC3", "\xE2\x82", "\xF0\x9F\x99", "\xC3!", "\xE2\x82!", "\xF0\x9F\x99!"};
  for (const Texts& texts : {no_start, overlong, surrogates, above_10ffff, cut_short}) {
    for (const std::string& text : texts) {
      EXPECT_EQ(decode_utf8(text, 0).length, 0U);
      EXPECT_EQ(find_invalid_utf8(text), 0U);
    }
  }
}

TEST(Utf8, ReadsNothingPastTheEnd) {
  const std::string_view text = "é€🙂";
  for (const size_t end :
       {1U, 3U, 4U, 6U, 7U, 8U}) {  // inside of a character, whose other bytes do follow in memory
    const size_t start = end < 2 ? 0 : end < 5 ? 2 : 5;
    EXPECT_EQ(decode_utf8(text.substr(0, end), start).length, 0U);
    EXPECT_EQ(find_invalid_utf8(text.substr(0, end)), start);
  }
}

TEST(Utf8, FindsTheFirstInvalidByteAtAnyPlace) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'x');
    EXPECT_EQ(find_invalid_utf8(text), 40U);
    text[at] = '\xE9';
    EXPECT_EQ(find_invalid_utf8(text), at);
    EXPECT_EQ(find_invalid_utf8("€é" + text), at + 5);
  }
  EXPECT_EQ(find_invalid_utf8(""), 0U);
}

TEST(Utf8, ErrorsNameTheByteOfTheFile) {
  check_utf8("encode", "naïve 🙂");
  EXPECT_ERROR(check_utf8("encode", "na\xEFve"), InputError, "[encode] byte 2 (0xef) is not UTF-8; ");
  EXPECT_ERROR(check_utf8("encode", "\xFF", 1234), InputError, "byte 1234 (0xff)");
}

}  // namespace
}  // namespace bridle
