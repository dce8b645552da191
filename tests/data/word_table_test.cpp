#include "data/word_table.h"

#include <gtest/gtest.h>

#include <random>

namespace bridle {
namespace {

TEST(WordTable, FindsItsWordsAndNoOthers) {
  const std::vector<std::string> words = {"a", "b", "ab", "not in it", "a long word of 27 bytes ...", ""};
  const std::vector<Token> ids = {0, 1, 2, 4, 5};
  const WordTable table(words, ids);
  for (const Token id : ids) EXPECT_EQ(table.find(words[id]), id);
  for (const char* word : {"not in it", "A", "ba", "aa", "a long word of 27 bytes ..!",
                           "A long word of 27 bytes ...", "a long word of 27 bytes ....", "abc"}) {
    EXPECT_EQ(table.find(word), std::nullopt) << word;
  }
}

TEST(WordTable, MayBeEmpty) {
  const std::vector<std::string> words;
  EXPECT_EQ(WordTable(words, {}).find("a"), std::nullopt);
  EXPECT_EQ(WordTable(words, {}).find(""), std::nullopt);
}

// Words that differ in little; every second one is in the table.
TEST(WordTable, TellsSimilarWordsApart) {
  std::mt19937 random(4);
  std::vector<std::string> words;
  std::vector<Token> ids;
  for (uint32_t i = 0; i < 65536; ++i) {
    std::string word;
    for (uint32_t bit = 0; bit < 16; ++bit) word += (i >> bit & 1) != 0 ? 'x' : '\0';
    words.push_back(word + std::string(random() % 5, 'y'));
    if (i % 2 == 0) ids.push_back(static_cast<Token>(i));
  }
  const WordTable table(words, ids);
  for (uint32_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(table.find(words[i]), i % 2 == 0 ? std::optional(static_cast<Token>(i)) : std::nullopt);
  }
}

}  // namespace
}  // namespace bridle
