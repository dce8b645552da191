#include "data/pretokens.h"

#include <gtest/gtest.h>

#include <functional>

#include "data/byte_pair_support.h"
#include "data/utf8.h"

namespace bridle {
namespace {

using Strings = std::vector<std::string>;

Strings pretokens(const std::string& text) {
  Strings parts;
  for (size_t start = 0; start < text.size();) {
    const size_t end = pretoken_end(text, start);
    parts.push_back(text.substr(start, end - start));
    start = end;
  }
  return parts;
}

TEST(Pretokens, AreWordsNumbersAndTheRestEachWithOneSpaceBefore) {
  EXPECT_EQ(pretokens("Hello world 42 times!?"), (Strings{"Hello", " world", " 42", " times", "!?"}));
  EXPECT_EQ(pretokens("a1b2-c"), (Strings{"a", "1", "b", "2", "-", "c"}));
  EXPECT_EQ(pretokens(" !a"), (Strings{" !", "a"}));
  EXPECT_EQ(pretokens("x"), Strings{"x"});
  EXPECT_EQ(pretokens(" "), Strings{" "});
  EXPECT_EQ(pretokens(""), Strings{});
}

TEST(Pretokens, SplitLowerCaseContractionsOnly) {
  EXPECT_EQ(
      pretokens("it's you're I've I'm we'll he'd don't"),
      (Strings{"it", "'s", " you", "'re", " I", "'ve", " I", "'m", " we", "'ll", " he", "'d", " don", "'t"}));
  EXPECT_EQ(pretokens("IT'S"), (Strings{"IT", "'", "S"}));
  EXPECT_EQ(pretokens("'sister"), (Strings{"'s", "ister"}));
  EXPECT_EQ(pretokens("'lx 'r"), (Strings{"'", "lx", " '", "r"}));
  EXPECT_EQ(pretokens("''s"), (Strings{"''", "s"}));
  EXPECT_EQ(pretokens(" 's"), (Strings{" '", "s"}));
  EXPECT_EQ(pretokens("'l"), (Strings{"'", "l"}));
}

TEST(Pretokens, LeaveTheLastOfSeveralSpacesToTheNext) {
  EXPECT_EQ(pretokens("a  b"), (Strings{"a", " ", " b"}));
  EXPECT_EQ(pretokens("a\n\nb"), (Strings{"a", "\n", "\n", "b"}));
  EXPECT_EQ(pretokens("a\nb"), (Strings{"a", "\n", "b"}));
  EXPECT_EQ(pretokens("a\n b"), (Strings{"a", "\n", " b"}));
  EXPECT_EQ(pretokens("a \nb"), (Strings{"a", " ", "\n", "b"}));
  EXPECT_EQ(pretokens("a \n "), (Strings{"a", " \n "}));
  EXPECT_EQ(pretokens("\u3000\u3000b"), (Strings{"\u3000", "\u3000", "b"}));
}

TEST(Pretokens, GoByUnicodeCategories) {
  EXPECT_EQ(pretokens("naïve日本語"), Strings{"naïve日本語"});
  EXPECT_EQ(pretokens("aǅʰB"), Strings{"aǅʰB"});  // title case and modifier letters
  EXPECT_EQ(pretokens("٣4½Ⅷ〇"), Strings{"٣4½Ⅷ〇"});
  EXPECT_EQ(pretokens("e\u0301x"), (Strings{"e", "\u0301", "x"}));  // a combining mark is no letter
  EXPECT_EQ(pretokens("👩\u200D🚀\u200B"), Strings{"👩\u200D🚀\u200B"});
}

TEST(Pretokens, KnowTheSpacesOfJavaScript) {
  for (const char32_t space :
       U"\t\n\v\f\r \u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
       U"\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF") {
    if (space == 0) continue;  // the literal's end
    std::string one;
    append_utf8(space, one);
    EXPECT_EQ(pretokens("!" + one), (Strings{"!", one})) << std::hex << static_cast<uint32_t>(space);
  }
  EXPECT_EQ(pretokens("!\u0085\u180E\u200B\u2060\x1C"), Strings{"!\u0085\u180E\u200B\u2060\x1C"});
}

// The pattern in its own words: alternatives in their order, over the few characters of random_text.
Strings match_plainly(const std::string& text) {
  Strings all;
  for (size_t at = 0; at < text.size(); at += all.back().size()) {
    all.push_back(text.substr(at, decode_utf8(text, at).length));
  }
  const auto among = [](const Strings& set) {
    return [set](const std::string& one) { return std::find(set.begin(), set.end(), one) != set.end(); };
  };
  using Test = std::function<bool(const std::string&)>;
  const Test space = among({"\u00A0", "\u3000", " ", "\n", "\uFEFF"}), number = among({"1", "٣", "½"});
  const Test letter = among({"a", "s", "t", "l", "L", "r", "e", "v", "d", "é", "д", "字"});
  const Test other = [&](const std::string& one) { return !space(one) && !letter(one) && !number(one); };
  const auto run = [&](size_t from, const Test& test) {
    size_t end = from;
    while (end < all.size() && test(all[end])) ++end;
    return end - from;
  };
  const auto match = [&](size_t at) -> size_t {
    for (const Strings& contraction : {Strings{"'", "s"},
                                       {"'", "t"},
                                       {"'", "r", "e"},
                                       {"'", "v", "e"},
                                       {"'", "m"},
                                       {"'", "l", "l"},
                                       {"'", "d"}}) {
      const auto end = std::min(all.size(), at + contraction.size());
      if (Strings(all.begin() + static_cast<int64_t>(at), all.begin() + static_cast<int64_t>(end)) ==
          contraction) {
        return contraction.size();
      }
    }
    for (const Test& kind : {letter, number, other}) {
      if (all[at] == " " && run(at + 1, kind) > 0) return 1 + run(at + 1, kind);
      if (run(at, kind) > 0) return run(at, kind);
    }
    for (size_t length = run(at, space); length > 0; --length) {
      if (at + length == all.size() || space(all[at + length])) return length;
    }
    return run(at, space);
  };
  Strings matches;
  for (size_t at = 0; at < all.size();) {
    std::string joined;
    for (size_t length = match(at); length > 0; --length) joined += all[at++];
    matches.push_back(joined);
  }
  return matches;
}

TEST(Pretokens, AreTheMatchesOfThePattern) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = test::random_text(random, 1 + random() % 12);
    ASSERT_EQ(pretokens(text), match_plainly(text)) << text;
  }
}

TEST(Pretokens, OfBothPartsAreThoseOfTheWholeAtEveryCut) {
  std::mt19937 random(2);
  size_t cuts = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = test::random_text(random, 1 + random() % 12);
    for (size_t seen = 0; seen <= text.size(); ++seen) {  // also inside of characters
      const size_t cut = last_safe_cut(std::string_view(text).substr(0, seen));
      ASSERT_LE(cut, seen);
      Strings parts = pretokens(text.substr(0, cut));
      for (const std::string& part : pretokens(text.substr(cut))) parts.push_back(part);
      ASSERT_EQ(parts, pretokens(text)) << text << " seen to " << seen << ", cut at " << cut;
      cuts += cut > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(cuts, 20000U);  // else there was nothing to see
}

TEST(Pretokens, AreCutAtTheLastPlaceThatIsSafe) {
  EXPECT_EQ(last_safe_cut("one two thr"), 7U);
  EXPECT_EQ(last_safe_cut("one two   "), 7U);
  EXPECT_EQ(last_safe_cut("one, two"), 4U);
  EXPECT_EQ(last_safe_cut("we'"), 2U);
  EXPECT_EQ(last_safe_cut("we'l"), 2U);
  EXPECT_EQ(last_safe_cut("\n\n'l"), 0U);  // "\n\n" for itself would be one pretoken
  EXPECT_EQ(last_safe_cut("字。字"), 6U);
  EXPECT_EQ(last_safe_cut("a\xE3\x80"), 0U);  // could become a space, or another letter
  EXPECT_EQ(last_safe_cut("a b\xE3"), 1U);
  EXPECT_EQ(last_safe_cut("aaaa"), 0U);
  EXPECT_EQ(last_safe_cut("\n \n"), 0U);
  EXPECT_EQ(last_safe_cut(""), 0U);
  EXPECT_EQ(last_safe_cut("\x80\x80\x80\x80\x80\xFF"), 0U);
}

}  // namespace
}  // namespace bridle
