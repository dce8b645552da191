#include "data/archive.h"

#include <sys/stat.h>

#include <random>

#include "archive_support.h"
#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::entries;
using test::FileSizeLimit;
using test::pack;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

std::string noise(size_t size) {
  std::mt19937 random(7);
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

TEST(Archive, GivesTheWantedMembersOnly) {
  const TemporaryFolder folder;
  make_folder(folder / "out");
  pack(folder / "a.tgz", {{"package/package.json", "{}"},
                          {"package/data/text.txt", "words"},
                          {"package/data", "", AE_IFDIR},
                          {"package/empty", ""},
                          {"package/noise", noise(3000000)},
                          {"other/text.txt", "not this one"}});
  unpack(folder / "a.tgz", folder / "out", {"package/noise", "package/data/text.txt", "package/empty"});
  EXPECT_EQ(entries(folder / "out"), (Names{"empty", "noise", "text.txt"}));
  EXPECT_EQ(read_file(folder / "out" / "text.txt"), "words");
  EXPECT_TRUE(read_file(folder / "out" / "noise") == noise(3000000));
  EXPECT_EQ(read_file(folder / "out" / "empty"), "");
}

TEST(Archive, TellsHowManyCompressedBytesItHasRead) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"noise", noise(3000000)}});
  const auto size = static_cast<int64_t>(std::filesystem::file_size(folder / "a.tgz"));
  std::vector<int64_t> done;
  unpack(folder / "a.tgz", folder, {"noise"}, [&](const Progress& progress) {
    EXPECT_EQ(progress.what, "unpack a.tgz");
    EXPECT_EQ(progress.total, size);
    done.push_back(progress.done);
  });
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_LT(done.front(), size / 5);
  EXPECT_NEAR(static_cast<double>(done.at(done.size() / 2)), static_cast<double>(size) / 2, 0.2 * 3000000);
  EXPECT_LE(done.back(), size);
  EXPECT_GT(done.back(), size - 100000);
}

TEST(Archive, NamesTheMemberThatIsMissing) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"package/a", "a"}});
  EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"package/b"}), InputError, "a.tgz: package/b is not in it");
  EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"a"}), InputError, "a.tgz: a is not in it");
}

TEST(Archive, RefusesLinksAndFolders) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"file", "a"},
                          {"package/link", "/etc/hostname", AE_IFLNK},
                          {"package/hard", "file", AE_IFREG, true},
                          {"package/folder", "", AE_IFDIR}});
  for (const std::string member : {"package/link", "package/hard"})
    EXPECT_ERROR(unpack(folder / "a.tgz", folder, {member}), InputError, member + " is a link or a folder");
  EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"package/folder/"}), InputError, "is a link or a folder");
  EXPECT_EQ(entries(folder), Names{"a.tgz"});
}

TEST(Archive, SaysWhereItIsDamaged) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"first", "whole"}, {"noise", noise(1000000)}});
  const std::string whole = read_file(folder / "a.tgz");
  write_file(folder / "a.tgz", whole.substr(0, whole.size() / 2));
  EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"first", "noise"}), InputError,
               "a.tgz: noise cannot be read (");
  EXPECT_EQ(entries(folder), (Names{"a.tgz", "first"}));
  write_file(folder / "a.tgz", whole.substr(0, whole.size() / 2) + std::string(whole.size() / 2, '\xff'));
  EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"noise"}), InputError, "a.tgz: noise cannot be read");
  EXPECT_FALSE(std::filesystem::exists(folder / "noise"));
}

TEST(Archive, SaysThatItIsNone) {
  const TemporaryFolder folder;
  for (const std::string contents : {"<html>not found</html>", "", "\x1f\x8b"}) {
    write_file(folder / "a.tgz", contents);
    EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"x"}), InputError,
                 "[unpack] " + (folder / "a.tgz").string());
  }
  EXPECT_ERROR(unpack(folder / "none.tgz", folder, {"x"}), InputError, "none.tgz: No such file or directory");
}

TEST(Archive, SaysThatTheDiskIsFullAndLeavesNoPart) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"noise", noise(3000000)}});
  {
    const FileSizeLimit limit(100000);
    EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"noise"}), InputError, "noise: File too large");
  }
  EXPECT_EQ(entries(folder), Names{"a.tgz"});
  EXPECT_ERROR(unpack(folder / "a.tgz", folder / "missing", {"noise"}), InputError,
               "missing/noise: No such file");
}

TEST(Archive, EndsWhereTheListenerThrows) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"noise", noise(1000000)}});
  const auto listener = [](const Progress& progress) {
    if (progress.done > 500000) throw InputError("test", "enough");
  };
  EXPECT_ERROR(unpack(folder / "a.tgz", folder, {"noise"}, listener), InputError, "enough");
  EXPECT_EQ(entries(folder), Names{"a.tgz"});
}

Names visited(const std::filesystem::path& archive, const std::string& suffix = "") {
  Names names;
  visit_members(archive,
                {.wanted = [&](const std::string& path) { return path.ends_with(suffix); },
                 .take = [&](const std::string& path,
                             const std::string& contents) { names.push_back(path + "=" + contents); }});
  return names;
}

TEST(VisitMembers, GivesTheWantedFilesInTheirOrder) {
  const TemporaryFolder folder;
  const std::vector<test::Member> members{{"./b/", "", AE_IFDIR},
                                          {"./b/2.txt", "two"},
                                          {"./a/1.txt", "one"},
                                          {"./a/link.txt", "1.txt", AE_IFLNK},
                                          {"./a/same.txt", "./a/1.txt", AE_IFREG, true},
                                          {"./a/empty.html", ""}};
  pack(folder / "a.tgz", members);
  test::pack_debian(folder / "a.deb", members);
  for (const char* file : {"a.tgz", "a.deb"}) {
    EXPECT_EQ(visited(folder / file, ".txt"), (Names{"b/2.txt=two", "a/1.txt=one"})) << file;
    EXPECT_EQ(visited(folder / file, ".html"), Names{"a/empty.html="});
    EXPECT_EQ(visited(folder / file, ".pdf"), Names{});
  }
}

TEST(VisitMembers, RefusesWhatIsCutShort) {
  const TemporaryFolder folder;
  pack(folder / "a.tgz", {{"a.txt", noise(50000)}});
  test::pack_debian(folder / "a.deb", {{"a.txt", noise(50000)}});
  for (const char* file : {"a.tgz", "a.deb"}) {
    const std::string whole = read_file(folder / file);
    for (const size_t size : {whole.size() / 2, size_t{20}}) {
      write_file(folder / "cut", std::string_view(whole).substr(0, size));
      EXPECT_ERROR(visited(folder / "cut"), InputError, "cut: ");
    }
  }
  write_file(folder / "no.deb", "!<arch>\n");
  EXPECT_ERROR(visited(folder / "no.deb"), InputError, "data.tar is not in it; fetch the archive again");
  EXPECT_ERROR(visited(folder / "missing"), InputError, "missing");
}

TEST(Gunzip, GivesWhatWasCompressedOrRefuses) {
  const std::string text = noise(100000) + std::string(100000, 'x');
  const std::string packed = test::gzipped(text);
  EXPECT_EQ(gunzip("x.gz", packed), text);
  EXPECT_ERROR(gunzip("x.gz", std::string_view(packed).substr(0, 50000)), InputError, "[unpack] x.gz: ");
  EXPECT_ERROR(gunzip("x.gz", "text"), InputError, "x.gz: is not gzip's");
  EXPECT_ERROR(gunzip("x.gz", ""), InputError, "x.gz: ");
}

}  // namespace
}  // namespace bridle
