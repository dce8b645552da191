#include "data/prose/packages.h"

#include <sys/stat.h>

#include <cstdlib>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/error.h"
#include "fake_apt.h"

namespace bridle {
namespace {

using test::EnvironmentVariable;
using test::FakeApt;
using test::TemporaryFolder;

constexpr const char* kSum =
    "d1b2a59fbea7e20077af9f91b27e95e865061b270be03ff539ab3b73587882e8";  // of "contents"

ProseSource npm_source(const std::string& sha256 = kSum) {
  return {
      .name = "first", .registry = Registry::npm, .package = "@a/b", .version = "1.2.3", .sha256 = sha256};
}
ProseSource debian_source(const std::string& version) {
  return {.name = "second", .package = "words", .version = version, .sha256 = std::string(64, '0')};
}

// An npm that has one package, or none.
class FakeNpm {
 public:
  explicit FakeNpm(const std::string& script) {
    write_file(folder_ / "npm", "#!/bin/sh\n" + script);
    ::chmod((folder_ / "npm").c_str(), 0755);
  }

 private:
  TemporaryFolder folder_;
  EnvironmentVariable path_{"PATH", (folder_ / "").string() + ":" + std::getenv("PATH")};
};
const char* const kPacked = R"(printf contents > a-b-1.2.3.tgz; echo '[{"filename": "a-b-1.2.3.tgz"}]')";

TEST(Packages, AreFetchedOnce) {
  const TemporaryFolder folder;
  const FakeApt apt;
  apt.add("words", "2.0", "contents");
  {
    const FakeNpm npm(kPacked);
    const auto packages = fetch_packages({npm_source(), debian_source("1.9")}, folder, {});
    ASSERT_EQ(packages.size(), 2U);
    EXPECT_EQ(packages[0].file, folder / "first/a-b-1.2.3.tgz");
    EXPECT_EQ(packages[0].sha256, kSum);
    EXPECT_EQ(packages[1].file, folder / "second/words_2.0_all.deb");
    EXPECT_EQ(packages[1].version, "2.0");  // another one than is known: recorded
    EXPECT_EQ(packages[1].sha256, kSum);
  }
  const FakeNpm gone("exit 1");
  EXPECT_EQ(fetch_packages({npm_source(), debian_source("1.9")}, folder, {}).size(), 2U);
}

TEST(Packages, MustBeTheFilesThatAreKnown) {
  const TemporaryFolder folder;
  const FakeApt apt;
  apt.add("words", "2.0", "contents");
  const FakeNpm npm(kPacked);
  EXPECT_ERROR(fetch_packages({npm_source(std::string(64, '1'))}, folder, {}), InputError, "instead of 1111");
  EXPECT_ERROR(
      fetch_packages({debian_source("2.0")}, folder, {}), InputError,
      "instead of 0000000000000000000000000000000000000000000000000000000000000000, which version 2.0");
}

TEST(Packages, AreFoundInAFolder) {
  const TemporaryFolder folder;
  write_file(folder / "a-b-1.2.3.tgz", "contents");
  EXPECT_ERROR(find_packages({npm_source(), debian_source("2")}, folder), InputError,
               "has no file words_*_*.deb, which is the Debian package words; fetch it into the folder");
  write_file(folder / "words_1%3a3.0_all.deb", "contents");
  const auto packages = find_packages({npm_source(), debian_source("2")}, folder);
  ASSERT_EQ(packages.size(), 2U);
  EXPECT_EQ(packages[1].name, "words");
  EXPECT_EQ(packages[1].version, "1:3.0");
  EXPECT_EQ(packages[1].sha256, kSum);
  write_file(folder / "a-b-1.2.3.tgz", "damaged");
  EXPECT_ERROR(find_packages({npm_source()}, folder), InputError, "a-b-1.2.3.tgz: SHA-256");
  EXPECT_ERROR(find_packages({npm_source()}, folder / "missing"), InputError, "missing: No such file");
}

TEST(Packages, AreWrittenAndReadAgain) {
  const TemporaryFolder folder;
  const std::vector<ProseSource> sources{npm_source(), debian_source("2")};
  write_packages({{sources[0], "@a/b", "1.2.3", "00", "/x/y"}, {sources[1], "words-2", "2.1", "11", "/z"}},
                 folder / "list");
  const auto packages = read_packages(sources, folder / "list");
  ASSERT_EQ(packages.size(), 2U);
  EXPECT_EQ(packages[1].source.name, "second");
  EXPECT_EQ(packages[1].name, "words-2");
  EXPECT_EQ(packages[1].version, "2.1");
  EXPECT_EQ(packages[1].sha256, "11");
  EXPECT_EQ(packages[1].file, "/z");
}

}  // namespace
}  // namespace bridle
