#include "data/prose/corpus.h"

#include <map>
#include <set>

#include "bridle/error.h"
#include "data/token_files.h"
#include "prose_support.h"

namespace bridle {
namespace {

using test::package_of;
using test::pages;
using test::TemporaryFolder;

class CorpusTest : public ::testing::Test {
 protected:
  FetchedPackage package(const std::string& name, const std::vector<test::Member>& members) {
    test::pack_debian(folder_ / (name + ".deb"), members);
    return package_of(folder_ / (name + ".deb"), name, TextFormat::html);
  }

  DataSet build(const std::vector<FetchedPackage>& packages, const std::string& out,
                CorpusOptions options = {}) {
    make_folder(folder_ / out);
    return build_corpus(packages, *tokenizer_, folder_ / out, options);
  }

  // The documents of a part, in their order.
  std::vector<std::string> documents(const std::vector<DataFile>& files) const {
    const TokenFiles tokens(files, TokenFormat::shard, tokenizer_->size());
    std::vector<int64_t> ids(static_cast<size_t>(tokens.size()));
    tokens.read(0, ids);
    std::vector<std::string> texts;
    for (const int64_t id : ids) {
      const auto token = static_cast<Token>(id);
      if (token == tokenizer_->document_token()) {
        texts.emplace_back();
      } else {
        texts.at(texts.size() - 1) += tokenizer_->decode({&token, 1});
      }
    }
    return texts;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = test::small_byte_pairs();
};

TEST_F(CorpusTest, HasEveryDocumentOnceInOnePart) {
  auto members = pages(100);
  members.push_back({"./short.html", "<p>too short</p>"});
  members.push_back({"./numbers.html", std::string(500, '7')});
  members.push_back({"./same.html", "<h1>" + test::paragraph(5) + "</h1>  "});
  members.push_back({"./lost.html", test::paragraph(500) + "\xEF\xBF\xBD"});
  const DataSet data = build({package("a", members), package("b", pages(80, 60))}, "out");
  ASSERT_EQ(data.sources.size(), 2U);
  EXPECT_EQ(data.sources[0].documents, 100);
  EXPECT_EQ(data.sources[0].dropped, 3);
  EXPECT_EQ(data.sources[0].duplicates, 1);
  EXPECT_EQ(data.sources[1].documents, 40);
  EXPECT_EQ(data.sources[1].duplicates, 40);  // also those of the other source
  EXPECT_EQ(data.document_token, 259);
  EXPECT_EQ(data.outputs, 260);
  std::multiset<std::string> all;
  for (const auto* files : {&data.train, &data.validation}) {
    for (const std::string& text : documents(*files)) all.insert(text);
  }
  std::multiset<std::string> expected;
  for (int i = 0; i < 140; ++i) expected.insert(test::paragraph(i));
  EXPECT_EQ(all, expected);
}

TEST_F(CorpusTest, KeepsValidationOfSourcesApartAndCountsThem) {
  const DataSet data = build({package("a", pages(100)), package("b", pages(100, 100))}, "out");
  std::map<std::string, int64_t> tokens;
  for (const DataFile& file : data.validation) {
    tokens[file.source] += file.count;
    for (const std::string& text : documents({file})) {
      const int number = std::stoi(text.substr(16));
      EXPECT_EQ(file.source, number < 100 ? "a" : "b") << text;
    }
  }
  ASSERT_EQ(tokens.size(), 2U);
  int64_t train = 0;
  for (const TextSource& source : data.sources) {
    EXPECT_EQ(tokens[source.name], source.validation);
    EXPECT_GT(source.validation, 0);
    train += source.train;
  }
  EXPECT_EQ(data.train.at(0).count, train);
}

TEST_F(CorpusTest, MixesTheSourcesOfTheTrainingPart) {
  const DataSet data = build({package("a", pages(100)), package("b", pages(100, 100))}, "out");
  int first_half_of_a = 0;
  const auto texts = documents(data.train);
  for (size_t i = 0; i < texts.size() / 2; ++i)
    first_half_of_a += std::stoi(texts[i].substr(16)) < 100 ? 1 : 0;
  EXPECT_GT(first_half_of_a, 25);
  EXPECT_LT(first_half_of_a, 75);
}

TEST_F(CorpusTest, DependsOnTheTextsAlone) {
  auto members = pages(100);
  const DataSet one = build({package("a", members)}, "one");
  std::reverse(members.begin(), members.end());
  const DataSet two = build({package("b", members)}, "two");
  EXPECT_EQ(documents(one.train), documents(two.train));
  EXPECT_EQ(documents(one.validation), documents(two.validation));
}

TEST_F(CorpusTest, WritesSeveralShards) {
  const DataSet data = build({package("a", pages(100))}, "out", {.shard_tokens = 5000});
  EXPECT_GT(data.train.size(), 3U);
  EXPECT_GE(documents(data.train).size(), 80U);
}

TEST_F(CorpusTest, RefusesPackagesWithoutDocumentsAndTokenizersWithoutAToken) {
  EXPECT_ERROR(build({package("a", {{"./x.html", "short"}})}, "out"), InputError,
               "[data] Debian package a 1.0: 0 documents are too few to train on and validate with");
  const auto characters = make_character_tokenizer("abc");
  EXPECT_ERROR(build_corpus({}, *characters, folder_), InputError,
               "'characters' has no token that stands before");
}

TEST_F(CorpusTest, SaysThatTheDiskIsFull) {
  const auto packages = std::vector{package("a", pages(100))};
  make_folder(folder_ / "out");
  const test::FileSizeLimit limit(2000);
  EXPECT_ERROR(build_corpus(packages, *tokenizer_, folder_ / "out"), InputError, "File too large");
}

}  // namespace
}  // namespace bridle
