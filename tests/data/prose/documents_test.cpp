#include "data/prose/documents.h"

#include "bridle/error.h"
#include "prose_support.h"

namespace bridle {
namespace {

using test::package_of;
using test::TemporaryFolder;
using Texts = std::vector<std::string>;

Texts documents_of(const FetchedPackage& package) {
  Texts texts;
  read_documents(package, [&](const std::string& text) { texts.push_back(text); }, {});
  return texts;
}

TEST(Documents, AreReadInEveryFormat) {
  const TemporaryFolder folder;
  test::pack(folder / "p.tgz", {{"a.html", "<p>caf\xE9</p>"},
                                {"a.rst.gz", test::gzipped("Text ``code``.\n")},
                                {"a.mail", "Subject: s\n\nbody \x93x\x94\n"},
                                {"a.tagged", "the/at end/nn ./.\n"},
                                {"a.txt", "plain\n"},
                                {"a.json", R"([{"t": "one<br />two \u0096", "s": 0}, {"t": "lost \ufffd"}])"},
                                {"d.index", "word\tA\tE\n"},
                                {"d.dict.dz", test::gzipped("word")}});
  const std::vector<std::tuple<TextFormat, std::string, Texts>> cases{
      {TextFormat::html, "*.html", {"café"}},
      {TextFormat::rst, "*.rst.gz", {"Text code."}},
      {TextFormat::mail, "*.mail", {"s\n\nbody “x”\n"}},
      {TextFormat::tagged, "*.tagged", {"the end.\n"}},
      {TextFormat::plain, "*.txt", {"plain\n"}},
      {TextFormat::json, "*.json", {"one\n\ntwo –", ""}},
      {TextFormat::dict, "d.*", {"word\n\n"}}};
  for (const auto& [format, members, expected] : cases)
    EXPECT_EQ(documents_of(package_of(folder / "p.tgz", "p", format, members)), expected) << members;
}

TEST(Documents, AreThoseOfTheWantedFiles) {
  const TemporaryFolder folder;
  test::pack_debian(folder / "p.deb",
                    {{"./x/1.txt", "one"}, {"./x/de/2.txt", "zwei"}, {"./x/3.html", "three"}});
  FetchedPackage package = package_of(folder / "p.deb", "p", TextFormat::plain, "x/*.txt");
  EXPECT_EQ(documents_of(package), (Texts{"one", "zwei"}));
  package.source.without = {"/de/"};
  EXPECT_EQ(documents_of(package), Texts{"one"});
}

TEST(Documents, AreRefusedWhereThePackageIsNotAsExpected) {
  const TemporaryFolder folder;
  test::pack(folder / "p.tgz",
             {{"a.json", "{}"}, {"b.json", "[3]"}, {"d.index", "word\tA\tE\n"}, {"x.gz", "x"}});
  const auto read = [&](TextFormat format, const std::string& members) {
    return documents_of(package_of(folder / "p.tgz", "p", format, members));
  };
  EXPECT_ERROR(read(TextFormat::json, "a.json"), InputError, "p.tgz: a.json: not a JSON array");
  EXPECT_ERROR(read(TextFormat::json, "b.json"), InputError, "b.json: a record without the text");
  EXPECT_ERROR(read(TextFormat::dict, "d.*"), InputError, "p.tgz: has no text that is d.*");
  EXPECT_ERROR(read(TextFormat::dict, "e.*"), InputError, "p.tgz: has no index that is e.*");
  EXPECT_ERROR(read(TextFormat::plain, "x.gz"), InputError, "p.tgz: x.gz: is not gzip's");
}

}  // namespace
}  // namespace bridle
