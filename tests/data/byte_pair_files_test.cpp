#include "data/byte_pair_files.h"

#include <fmt/format.h>

#include <fstream>

#include "base/files.h"
#include "bridle/error.h"
#include "data/byte_pair_support.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::make_byte_pairs;
using test::TemporaryFolder;

const test::Parts kParts = {{" ", "t"}, {"h", "e"}, {" t", "he"}, {"\xC3", "\xA9"}};

// A folder with a good vocabulary, and one change to one of its files.
class BytePairFiles : public testing::Test {
 protected:
  BytePairFiles() { write_byte_pairs(make_byte_pairs(kParts), folder_); }

  void replace(const char* file, const std::string& from, const std::string& to) const {
    std::string text = read_file(folder_ / file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    put(file, text.replace(at, from.size(), to));
  }
  void put(const char* file, const std::string& text) const { std::ofstream(folder_ / file) << text; }
  void read() const { read_byte_pairs(folder_); }

  TemporaryFolder folder_;
};

TEST_F(BytePairFiles, AreReadAsTheyWereWritten) {
  for (const unsigned seed : {0U, 1U, 2U}) {
    const BytePairs pairs = make_byte_pairs(kParts, seed);
    write_byte_pairs(pairs, folder_);
    const BytePairs again = read_byte_pairs(folder_);
    EXPECT_EQ(again.tokens, pairs.tokens);
    EXPECT_EQ(again.bytes, pairs.bytes);
    ASSERT_EQ(again.merges.size(), pairs.merges.size());
    for (size_t i = 0; i < pairs.merges.size(); ++i) {
      EXPECT_EQ(again.merges[i].left, pairs.merges[i].left);
      EXPECT_EQ(again.merges[i].right, pairs.merges[i].right);
      EXPECT_EQ(again.merges[i].result, pairs.merges[i].result);
    }
  }
}

TEST_F(BytePairFiles, WriteBytesAsGpt2Does) {
  EXPECT_EQ(read_file(folder_ / "merges.txt"), "#version: 0.2\nĠ t\nh e\nĠt he\nÃ ©\n");
  const std::string vocabulary = read_file(folder_ / "vocab.json");
  for (const char* entry : {"{\"Ā\": 0,", "\"Ċ\": 10,", "\"Ġ\": 32,", "\"!\": 33,", R"("\"": 34,)",
                            R"("\\": 92,)", "\"~\": 126,", "\"ġ\": 127,", "\"ł\": 160,", "\"¡\": 161,",
                            "\"Ń\": 173,", "\"ÿ\": 255,", "\"Ġthe\": 258,", "\"<|endoftext|>\": 260}"}) {
    EXPECT_NE(vocabulary.find(entry), std::string::npos) << entry;
  }
}

TEST_F(BytePairFiles, MayHaveTheNamesOfOpenAi) {
  std::filesystem::rename(folder_ / "vocab.json", folder_ / "encoder.json");
  std::filesystem::rename(folder_ / "merges.txt", folder_ / "vocab.bpe");
  EXPECT_EQ(read_byte_pairs(folder_).merges.size(), kParts.size());
}

TEST_F(BytePairFiles, NeedNoNewlineAtTheEnd) {
  replace("merges.txt", "Ã ©\n", "Ã ©");
  EXPECT_EQ(read_byte_pairs(folder_).merges.size(), kParts.size());
}

TEST_F(BytePairFiles, AreMissedByName) {
  EXPECT_ERROR(read_byte_pairs("/no/such/folder"), InputError,
               "/no/such/folder: has neither vocab.json nor encoder.json");
  std::filesystem::remove(folder_ / "merges.txt");
  EXPECT_ERROR(read(), InputError, "merges.txt: No such file");
}

TEST_F(BytePairFiles, ThatWereCutShortAreRefused) {
  for (const char* file : {"vocab.json", "merges.txt"}) {
    const std::string whole = read_file(folder_ / file);
    for (size_t size = 0; size + 2 <= whole.size(); size += 1 + size / 100) {
      put(file, whole.substr(0, size));
      EXPECT_ERROR(read(), InputError, std::string("/") + file + ": ");
    }
    put(file, whole);
  }
}

TEST_F(BytePairFiles, OfRandomBytesAreRefused) {
  std::mt19937 random(5);
  for (const char* file : {"vocab.json", "merges.txt"}) {
    const std::string whole = read_file(folder_ / file);
    for (int i = 0; i < 100; ++i) {
      std::string bytes = i % 2 == 0 ? "" : whole.substr(0, 20);
      while (bytes.size() < 300) bytes += static_cast<char>(random());
      put(file, bytes);
      EXPECT_ERROR(read(), InputError, std::string("/") + file + ": ");
    }
    put(file, whole);
  }
}

TEST_F(BytePairFiles, NeedAnObjectOfIds) {
  put("vocab.json", "[1, 2]");
  EXPECT_ERROR(read(), InputError,
               "vocab.json: holds array, not an object of ids by token; fetch GPT-2's files again");
  put("vocab.json", "{\"a\" 1}");
  EXPECT_ERROR(read(), InputError, "vocab.json: byte 6 is not JSON");
}

TEST_F(BytePairFiles, NeedEachIdOnce) {
  for (const char* id : {"-1", "1.5", "\"97\"", "261", "99999999999999999999", "null", "[]"}) {
    replace("vocab.json", "\"a\": 97", fmt::format("\"a\": {}", id));
    EXPECT_ERROR(read(), InputError, "token \"a\" has id ");
    write_byte_pairs(make_byte_pairs(kParts), folder_);
  }
  replace("vocab.json", "\"a\": 97", "\"a\": 98");
  EXPECT_ERROR(read(), InputError, "id 98 belongs to \"b\" and another token");
}

TEST_F(BytePairFiles, HoldNoMoreThan65536Tokens) {
  std::string vocabulary = "{";
  for (int i = 0; i <= 65536; ++i) vocabulary += fmt::format("{}\"t{}\": {}", i == 0 ? "" : ",", i, i);
  put("vocab.json", vocabulary + "}");
  EXPECT_ERROR(read(), InputError, "has 65537 tokens, of 65536 at most");
}

TEST_F(BytePairFiles, NeedTokensOfTheAlphabet) {
  replace("vocab.json", "\"Ġthe\"", "\"字the\"");
  EXPECT_ERROR(read(), InputError, "token \"字the\" has U+5B57, which stands for no byte");
  replace("vocab.json", "\"字the\"", "\"\"");
  EXPECT_ERROR(read(), InputError, "has an empty token");
}

TEST_F(BytePairFiles, NeedEveryByte) {
  replace("vocab.json", "\"A\"", "\"AA\"");
  EXPECT_ERROR(read(), InputError, "has no token for the byte 0x41");
}

TEST_F(BytePairFiles, NeedMergesOfTwoKnownTokensIntoAThird) {
  const auto expect = [&](const std::string& line, const std::string& part) {
    write_byte_pairs(make_byte_pairs(kParts), folder_);
    replace("merges.txt", "h e\n", line);
    EXPECT_ERROR(read(), InputError, "merges.txt: line 3 " + part);
  };
  expect("he\n", "is \"he\", not two tokens with a space between");
  expect("h  e\n", "is \"h  e\"");
  expect("h e e\n", "is \"h e e\"");
  expect("\n", "is \"\"");
  expect(" e\n", "is \" e\"");
  expect("h \n", "is \"h \"");
  expect("h e\r\n", "has \"e\\r\", which is not in the vocabulary");
  expect("h o\n", "has \"ho\", which is not in the vocabulary");
  expect("Ġt he\n", "merges \"he\" before a line makes it");
  expect("Ġ t\n", "makes \"Ġt\" a second time");
}

TEST_F(BytePairFiles, NeedAMergeForEveryToken) {
  replace("merges.txt", "Ã ©\n", "");
  EXPECT_ERROR(read(), InputError, "merges.txt: no line makes token 259, \"Ã©\"");
}

TEST_F(BytePairFiles, NeedTheVersionLine) {
  replace("merges.txt", "#version: 0.2\n", "");
  EXPECT_ERROR(read(), InputError, "merges.txt: starts with \"Ġ t\\nh e");
}

TEST_F(BytePairFiles, DoNotNeedEndOfText) {
  replace("vocab.json", ", \"<|endoftext|>\": 260", "");
  EXPECT_EQ(read_byte_pairs(folder_).tokens.size(), 260U);
}

}  // namespace
}  // namespace bridle
