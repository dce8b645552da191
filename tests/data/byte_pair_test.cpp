#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/tokenizer.h"
#include "data/byte_pair_support.h"
#include "data/pretokens.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
using Tokens = std::vector<Token>;

Tokens encode(const Tokenizer& tokenizer, std::string_view text) {
  Tokens tokens;
  tokenizer.encode(text, tokens);
  return tokens;
}

const test::Parts kParts = {{" ", "t"}, {"h", "e"},   {" t", "he"}, {"b", "c"},      {"a", "bc"},
                            {"a", "a"}, {"aa", "aa"}, {"'", "s"},   {"\xC3", "\xA9"}};

std::unique_ptr<Tokenizer> small_tokenizer(unsigned seed = 0) {
  const TemporaryFolder folder;
  write_byte_pairs(test::make_byte_pairs(kParts, seed), folder);
  return load_byte_pair_tokenizer(folder);
}

TEST(BytePair, EncodesByHand) {
  const auto tokenizer = small_tokenizer();
  EXPECT_STREQ(tokenizer->name(), "gpt2");
  EXPECT_EQ(tokenizer->size(), 266);
  EXPECT_EQ(encode(*tokenizer, "the the's"), (Tokens{'t', 257, 258, 263}));
  EXPECT_EQ(encode(*tokenizer, "é"), Tokens{264});
  EXPECT_EQ(encode(*tokenizer, "  the"), (Tokens{' ', 258}));
  EXPECT_EQ(encode(*tokenizer, ""), Tokens{});
}

TEST(BytePair, EqualsMergingEachPretokenByPasses) {
  std::mt19937 random(6);
  for (const unsigned seed : {0U, 1U}) {
    const BytePairs pairs = test::make_byte_pairs(test::random_parts("aslter' \xC3\xA9", 200, 9), seed);
    const TemporaryFolder folder;
    write_byte_pairs(pairs, folder);
    const auto tokenizer = load_byte_pair_tokenizer(folder);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = test::random_text(random, 1 + random() % 60);
      Tokens expected;
      for (size_t start = 0, end = 0; start < text.size(); start = end) {
        end = pretoken_end(text, start);
        for (const Token token : test::merge_plainly(pairs, text.substr(start, end - start)))
          expected.push_back(token);
      }
      ASSERT_EQ(encode(*tokenizer, text), expected) << text;
      ASSERT_EQ(tokenizer->decode(expected), text);
    }
  }
}

TEST(BytePair, FindsNoTokenThatItsBytesDoNotMergeInto) {
  const TemporaryFolder folder;
  write_byte_pairs(test::make_byte_pairs({{"b", "c"}, {"a", "b"}, {"ab", "c"}}), folder);
  const auto tokenizer = load_byte_pair_tokenizer(folder);
  EXPECT_EQ(encode(*tokenizer, "abc"), (Tokens{'a', 256}));
  EXPECT_EQ(tokenizer->decode(Tokens{258}), "abc");
}

TEST(BytePair, DecodesEndOfTextButNeverEncodesIt) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer->decode(Tokens{265}), "<|endoftext|>");
  const Tokens tokens = encode(*tokenizer, "<|endoftext|>");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 265), 0);
  EXPECT_EQ(tokenizer->decode(tokens), "<|endoftext|>");
}

TEST(BytePair, DecodesPartsOfCharacters) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer->decode(Tokens{0xC3}), "\xC3");
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_ERROR(tokenizer->decode(Tokens{266}), InputError,
               "[decode] token 266; the vocabulary's ids end at 265");
}

TEST(BytePair, RefusesWhatIsNotUtf8AndAppendsNothing) {
  const auto tokenizer = small_tokenizer();
  Tokens tokens = {1};
  EXPECT_ERROR(tokenizer->encode("the \xFF", tokens), InputError, "[encode] byte 4 (0xff) is not UTF-8");
  EXPECT_ERROR(tokenizer->encode("the \xE5\xAD", tokens), InputError, "byte 4 (0xe5)");
  EXPECT_EQ(tokens, Tokens{1});
}

TEST(BytePair, EncodesAFileInPartsAsAWhole) {
  const auto tokenizer = small_tokenizer();
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const std::string text = test::random_text(random, 400);
    Tokens parts;
    std::string waiting;
    for (size_t at = 0; at < text.size();) {
      const size_t step = 1 + random() % 50;
      waiting += text.substr(at, step);
      at += step;
      const size_t cut = tokenizer->cut(waiting);
      tokenizer->encode(waiting.substr(0, cut), parts);
      waiting.erase(0, cut);
    }
    EXPECT_LT(waiting.size(), 100U);
    tokenizer->encode(waiting, parts);
    ASSERT_EQ(parts, encode(*tokenizer, text)) << text;
  }
}

TEST(BytePair, IsSavedAndLoadedAgain) {
  const TemporaryFolder first, second;
  const auto tokenizer = small_tokenizer(3);
  tokenizer->save(first);
  load_byte_pair_tokenizer(first)->save(second);
  for (const char* file : {"vocab.json", "merges.txt"})
    EXPECT_EQ(read_file(first / file), read_file(second / file));
  EXPECT_EQ(encode(*load_byte_pair_tokenizer(second), "the aaaaé's"), encode(*tokenizer, "the aaaaé's"));
}

TEST(BytePair, EncodesFromSeveralThreads) {
  const auto tokenizer = small_tokenizer();
  std::mt19937 random(8);
  const std::string text = test::random_text(random, 20000);
  const Tokens expected = encode(*tokenizer, text);
  std::vector<Tokens> results(4);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (Tokens& result : results) threads.emplace_back([&] { result = encode(*tokenizer, text); });
  for (std::thread& thread : threads) thread.join();
  for (const Tokens& result : results) EXPECT_EQ(result, expected);
}

TEST(BytePair, EncodesAMillionTimesTheSameCharacter) {
  const auto tokenizer = small_tokenizer();
  for (const char* one : {"a", " ", "\n", "'", "é", "字"}) {
    std::string text;
    for (int i = 0; i < 1000000; ++i) text += one;
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text);
    EXPECT_EQ(tokenizer->cut(text), 0U);
  }
}

TEST(BytePair, HasATokenForDocuments) {
  EXPECT_EQ(small_tokenizer()->document_token(), 265);
  EXPECT_EQ(make_character_tokenizer("a")->document_token(), std::nullopt);
}

TEST(BytePair, CanBeLimitedToItsFirstMerges) {
  const TemporaryFolder folder, saved;
  for (const unsigned seed : {0U, 3U}) {
    write_byte_pairs(test::make_byte_pairs(kParts, seed), folder);
    for (const int merges : {0, 2, 5, 9}) {
      const auto tokenizer = load_byte_pair_tokenizer(folder, merges);
      EXPECT_EQ(tokenizer->size(), 257 + merges);
      const test::Parts parts(kParts.begin(), kParts.begin() + merges);
      const BytePairs pairs = test::make_byte_pairs(parts);
      std::mt19937 random(9);
      for (int i = 0; i < 50; ++i) {
        const std::string text = test::random_text(random, 50) + " the aabcaa";
        EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text);
      }
      // Ids aside, the pieces are those of a vocabulary that never had more merges.
      const auto piece = [&](Token id) { return tokenizer->decode({&id, 1}); };
      std::vector<std::string> pieces, expected;
      for (const Token id : encode(*tokenizer, "aabcaa")) pieces.push_back(piece(id));
      for (const Token id : test::merge_plainly(pairs, "aabcaa")) expected.push_back(pairs.tokens[id]);
      EXPECT_EQ(pieces, expected);
      tokenizer->save(saved);
      EXPECT_EQ(load_byte_pair_tokenizer(saved)->size(), 257 + merges);
      EXPECT_EQ(tokenizer->decode(Tokens{*tokenizer->document_token()}), "<|endoftext|>");
    }
  }
  EXPECT_ERROR(load_byte_pair_tokenizer(folder, 10), InputError, "merges must be from 0 to 9, got 10");
}

// Each line: [merges, text, ids], by gpt2_first_merges.mjs.
TEST(Gpt2Golden, EncodesByItsFirstMergesLikeThePackageCutShort) {
  const char* data = std::getenv("BRIDLE_DATA");
  const std::filesystem::path folder = std::filesystem::path(data == nullptr ? "" : data) / "gpt2";
  if (data == nullptr || !std::filesystem::exists(folder / "vocab.json")) {
    const std::string missing =
        "GPT-2's vocabulary is not in $BRIDLE_DATA/gpt2: `bridle data get gpt2` fetches it";
    if (std::getenv("BRIDLE_OFFLINE") != nullptr) GTEST_SKIP() << missing;
    FAIL() << missing;
  }
  std::map<int64_t, std::unique_ptr<Tokenizer>> tokenizers;
  std::istringstream lines(read_file(test::golden_file("gpt2_first_merges.jsonl")));
  int strings = 0;
  for (std::string text; std::getline(lines, text); ++strings) {
    const auto line = nlohmann::json::parse(text);
    const auto merges = line[0].get<int64_t>();
    auto& tokenizer = tokenizers[merges];
    if (!tokenizer) tokenizer = load_byte_pair_tokenizer(folder, merges);
    ASSERT_EQ(encode(*tokenizer, line[1].get<std::string>()), line[2].get<Tokens>()) << text;
  }
  EXPECT_GE(strings, 2000);
  ASSERT_TRUE(tokenizers.contains(7935));
  EXPECT_EQ(tokenizers[7935]->size(), 8192);
  EXPECT_EQ(tokenizers[7935]->document_token(), 8191);
}

TEST(Gpt2Golden, EncodesLikeThePackage) {
  const char* data = std::getenv("BRIDLE_DATA");
  const std::filesystem::path folder = std::filesystem::path(data == nullptr ? "" : data) / "gpt2";
  if (data == nullptr || !std::filesystem::exists(folder / "vocab.json")) {
    const std::string missing =
        "GPT-2's vocabulary is not in $BRIDLE_DATA/gpt2: `bridle data get gpt2` fetches it";
    if (std::getenv("BRIDLE_OFFLINE") != nullptr) GTEST_SKIP() << missing;
    FAIL() << missing;
  }
  const auto tokenizer = load_byte_pair_tokenizer(folder);
  EXPECT_EQ(tokenizer->size(), 50257);
  EXPECT_EQ(tokenizer->decode(Tokens{50256}), "<|endoftext|>");
  const std::string golden = read_file(test::golden_file("gpt2_encodings.jsonl"));
  int strings = 0;
  for (size_t start = 0, end = 0; start < golden.size(); start = end + 1, ++strings) {
    end = golden.find('\n', start);
    const auto line = nlohmann::json::parse(golden.substr(start, end - start));
    const auto text = line[0].get<std::string>();
    ASSERT_EQ(encode(*tokenizer, text), line[1].get<Tokens>()) << line[0];
    ASSERT_EQ(tokenizer->decode(line[1].get<Tokens>()), text);
  }
  EXPECT_GE(strings, 10000);
}

}  // namespace
}  // namespace bridle
