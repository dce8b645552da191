#include "data/prose/mail.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(Mail, GivesSubjectAndOwnWords) {
  EXPECT_EQ(
      text_of_mail("From a@b  Tue Jul 30 08:30:04 2002\nReceived: from x\n\tby y\nSubject: Re: One\n  more\n"
                   "Content-Type: text/plain; charset=\"us-ascii\"\n\nAt noon, Ann wrote:\n> old words\n"
                   "New words.\n\n-- \nAnn\n"),
      "Re: One more\n\nNew words.\n\n");
  EXPECT_EQ(text_of_mail("Subject: =?utf-8?q?x?=\n\nText\n____________________\nlist@x\n"), "Text\n");
  EXPECT_EQ(text_of_mail(""), "");
}

TEST(Mail, DecodesWhatTheTransportNeeded) {
  EXPECT_EQ(
      text_of_mail(
          "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=iso-8859-1\n\n"
          "caf=E9 goes=\n on =zz\n"),
      "caf\xE9 goes on =zz\n");
  EXPECT_EQ(text_of_mail("Content-Transfer-Encoding: BASE64\n\nSGVsbG8s\nIHlvdS4=\n"), "Hello, you.\n");
  EXPECT_EQ(text_of_mail("Content-Type: text/html\n\n<p>One</p><p>two</p>\n"), "One\n\ntwo\n");
}

TEST(Mail, TakesTheFirstTextOfSeveralParts) {
  const std::string parts =
      "Content-Type: multipart/alternative;\n boundary=\"xx\"\n\nfor old readers\n--xx\nContent-Type: "
      "text/html\n\n"
      "<p>html</p>\n--xx\nContent-Type: text/plain\n\nplain\n--xx--\nrest\n";
  EXPECT_EQ(text_of_mail(parts), "plain\n");
  EXPECT_EQ(text_of_mail(
                "Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: multipart/x; boundary=b\n\n"
                "--b\n\ninner\n--b--\n--a--\n"),
            "inner\n");
}

TEST(Mail, IsNothingWhereThereIsNoTextThatCanBeRead) {
  EXPECT_EQ(text_of_mail("Content-Type: text/plain; charset=big5\n\nx\n"), std::nullopt);
  EXPECT_EQ(text_of_mail("Content-Type: image/png\n\nx\n"), std::nullopt);
  EXPECT_EQ(text_of_mail("Content-Type: multipart/mixed\n\nx\n"), std::nullopt);
  std::string deep = "Content-Type: multipart/mixed; boundary=a\n\n";
  for (int i = 0; i < 100; ++i) deep += "--a\nContent-Type: multipart/mixed; boundary=a\n\n";
  EXPECT_EQ(text_of_mail(deep), std::nullopt);
}

}  // namespace
}  // namespace bridle
