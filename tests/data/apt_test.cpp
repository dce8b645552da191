#include "data/apt.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/files.h"
#include "bridle/error.h"
#include "fake_apt.h"

namespace bridle {
namespace {

using test::entries;
using test::EnvironmentVariable;
using test::FakeApt;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

TEST(Apt, BringsAPackageAndTellsItsVersion) {
  const TemporaryFolder folder;
  FakeApt apt;
  apt.add("words", "1%3a2.0-1", "contents");
  Progress last;
  const DebianFile file =
      fetch_debian_package({"words"}, folder, [&](const Progress& progress) { last = progress; });
  EXPECT_EQ(file.path, folder / "words_1%3a2.0-1_all.deb");
  EXPECT_EQ(read_file(file.path), "contents");
  EXPECT_EQ(file.package, "words");
  EXPECT_EQ(file.version, "1:2.0-1");
  EXPECT_EQ(file.sha256, "d1b2a59fbea7e20077af9f91b27e95e865061b270be03ff539ab3b73587882e8");
  EXPECT_EQ(last.what, "fetch words");
  EXPECT_EQ(last.done, 8);
  EXPECT_EQ(last.total, 8);
  EXPECT_EQ(apt.calls().back(), "apt-get download -q words=1:2.0-1");
}

TEST(Apt, TakesThePackageThatTheReleaseDependsOn) {
  const TemporaryFolder folder;
  FakeApt apt;
  apt.add("words-6.1", "6.1.4-1", "contents");
  apt.set_depends("words\n  Depends: other-package\n  Depends: words-6.1\n  Depends: words-7\n");
  EXPECT_EQ(fetch_debian_package({"words", "words-*"}, folder).package, "words-6.1");
  EXPECT_ERROR(fetch_debian_package({"words", "lists-*"}, folder), InputError,
               "[apt] words: depends on no package lists-*; this release may have changed");
}

TEST(Apt, DoesNotFetchAWholeFileAgain) {
  const TemporaryFolder folder;
  FakeApt apt;
  apt.add("words", "2.0", "contents");
  fetch_debian_package({"words"}, folder);
  const size_t calls = apt.calls().size();
  fetch_debian_package({"words"}, folder);
  EXPECT_EQ(apt.calls().size(), calls + 1);  // the listing
  write_file(folder / "words_2.0_all.deb", "content$");
  fetch_debian_package({"words"}, folder);
  EXPECT_EQ(read_file(folder / "words_2.0_all.deb"), "contents");
}

TEST(Apt, RefusesAFileThatIsNotTheOneOfTheIndex) {
  const TemporaryFolder folder;
  FakeApt apt;
  apt.add("words", "2.0", "contents", "cut");
  EXPECT_ERROR(fetch_debian_package({"words"}, folder), InputError,
               "[apt] words: words_2.0_all.deb is not the file of 8 bytes and SHA-256 d1b2a59f");
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Apt, SaysWhatWentWrong) {
  const TemporaryFolder folder;
  const FakeApt apt;
  EXPECT_ERROR(fetch_debian_package({"nothing"}, folder), InputError,
               "[apt] nothing: Unable to locate package nothing; run apt-get update as root, or fetch");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"echo 'W: something' >&2; echo 'E: Failed to fetch x: Could not connect' >&2; exit 100",
       "words: Failed to fetch x: Could not connect; check the network and apt's settings, or"},
      {"echo 'E: Write error - write (28: No space left on device)' >&2; exit 100",
       "device); make room there"},
      {"exit 3", "words: apt ended with exit code 3; check"},
      {"echo what", "words: apt-get did not name its file but said \"what"},
      {"echo \"'http://x/y.deb' ../y_1_all.deb 3 SHA256:00\"", "did not name its file"},
      {"echo \"'http://x/y.deb' y_1_all.deb 3 MD5Sum:00\"", "did not name its file"}};
  for (const auto& [script, expected] : cases) {
    const FakeApt other(script);
    EXPECT_ERROR(fetch_debian_package({"words"}, folder), InputError, expected);
  }
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Apt, IsStoppedWhereNothingComes) {
  const TemporaryFolder folder;
  FakeApt apt;
  apt.add("words", "2.0", "contents");
  apt.delay_download();
  EXPECT_ERROR(fetch_debian_package({"words"}, folder, {}, {std::chrono::milliseconds(400)}), InputError,
               "[apt] words: nothing came for too long; check the network");
}

TEST(Apt, SaysThatThereIsNone) {
  const TemporaryFolder folder;
  const EnvironmentVariable path("PATH", static_cast<const std::filesystem::path&>(folder).string());
  EXPECT_ERROR(fetch_debian_package({"words"}, folder), InputError,
               "[apt] words: apt-get is not on PATH; fetch the package on a Debian system and import it");
}

}  // namespace
}  // namespace bridle
