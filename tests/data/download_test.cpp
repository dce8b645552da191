#include "data/download.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"
#include "http_server.h"

namespace bridle {
namespace {

using test::entries;
using test::EnvironmentVariable;
using test::FileSizeLimit;
using test::HttpServer;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

std::string body(size_t size = 300000) {
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) text += fmt::format("line {}\n", i);
  text.resize(size);
  return text;
}

TEST(Download, BringsAFileAndTellsHowFarItIs) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  std::vector<int64_t> done;
  download(server.url("/file"), folder / "file", [&](const Progress& progress) {
    EXPECT_EQ(progress.what, "download file");
    EXPECT_EQ(progress.total, 300000);
    EXPECT_EQ(progress.unit, "bytes");
    done.push_back(progress.done);
  });
  EXPECT_TRUE(read_file(folder / "file") == body());
  EXPECT_EQ(entries(folder), Names{"file"});
  EXPECT_GT(done.size(), 2);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 300000);
}

TEST(Download, CopiesFromDisk) {
  const TemporaryFolder folder;
  write_file(folder / "source", body());
  write_file(folder / "empty", "");
  write_file(folder / "copy.part", "of something else");
  download("file://" + (folder / "source").string(), folder / "copy");
  download("file://" + (folder / "empty").string(), folder / "nothing");
  EXPECT_TRUE(read_file(folder / "copy") == body());
  EXPECT_EQ(read_file(folder / "nothing"), "");
  EXPECT_ERROR(download("file:///no/such/file", folder / "x"), InputError,
               "file:///no/such/file: Could");  // not open it, in the words of the library's version
}

TEST(Download, FollowsRedirectsButNotOntoThisDisk) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  download(server.url("/moved"), folder / "file");
  EXPECT_TRUE(read_file(folder / "file") == body());
  EXPECT_ERROR(download(server.url("/elsewhere"), folder / "stolen"), InputError, "Protocol \"file\"");
  EXPECT_EQ(entries(folder), Names{"file"});
}

TEST(Download, IsEmptyWhereTheFileIs) {
  const TemporaryFolder folder;
  const HttpServer server("");
  download(server.url("/file"), folder / "file");
  EXPECT_EQ(read_file(folder / "file"), "");
}

TEST(Download, GoesOnWhereTheConnectionWasCut) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  EXPECT_ERROR(download(server.url("/cut"), folder / "file"), InputError, "check the network");
  EXPECT_EQ(entries(folder), Names{"file.part"});
  int64_t first = 0;
  download(server.url("/file"), folder / "file", [&](const Progress& progress) {
    if (first == 0) first = progress.done;
    EXPECT_EQ(progress.total, 300000);
  });
  EXPECT_GT(first, 150000);
  EXPECT_TRUE(read_file(folder / "file") == body());
  EXPECT_EQ(server.log(), (Names{"/cut", "/file from 150000"}));
  EXPECT_EQ(entries(folder), Names{"file"});
}

TEST(Download, GoesOnAfterTheProcessWasKilled) {
  const TemporaryFolder folder;
  const HttpServer server(body(5000000));
  const pid_t child = ::fork();
  if (child == 0) {
    download(server.url("/stall"), folder / "file");
    ::_exit(0);
  }
  const auto size = [&] {
    std::error_code ignored;
    const auto bytes = std::filesystem::file_size(folder / "file.part", ignored);
    return ignored ? 0 : bytes;
  };
  for (int i = 0; i < 1000 && size() < 1000000; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto had = size();
  ASSERT_GT(had, 1000000);
  download_checked(server.url("/file"), folder / "file", [] {
    Sha256 hash;
    hash.update(std::as_bytes(std::span<const char>(body(5000000))));
    return hash.digest();
  }());
  EXPECT_EQ(server.log().back(), fmt::format("/file from {}", had));
}

TEST(Download, StartsOverWhereThePartCannotBeContinued) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  for (const std::string route : {"/whole", "/lies"}) {
    write_file(folder / "file.part", "something else");
    download(server.url(route), folder / "file");
    EXPECT_TRUE(read_file(folder / "file") == body()) << route;
  }
  EXPECT_EQ(server.log(), (Names{"/whole from 14", "/lies from 14", "/lies"}));
  write_file(folder / "file.part", body() + body());  // 416
  download(server.url("/file"), folder / "file");
  EXPECT_TRUE(read_file(folder / "file") == body());
  EXPECT_EQ(server.log().back(), "/file");
}

TEST(Download, SaysWhatTheServerSaid) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  EXPECT_ERROR(download(server.url("/missing"), folder / "file"), InputError,
               server.url("/missing") + ": HTTP status 404; check the address");
  EXPECT_ERROR(download(server.url("/broken"), folder / "file"), InputError,
               "HTTP status 500; try again later");
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Download, GivesUpOnASilentServer) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  const DownloadLimits limits{.slowest_bytes_a_second = 1000000000, .slowest_for_seconds = 1};
  EXPECT_ERROR(download(server.url("/stall"), folder / "file", {}, limits), InputError, "Operation too slow");
  EXPECT_EQ(std::filesystem::file_size(folder / "file.part"), 150000);
}

TEST(Download, SaysThatTheNetworkCannotBeReached) {
  const TemporaryFolder folder;
  const EnvironmentVariable direct("no_proxy", "*");
  const std::string closed = fmt::format("http://127.0.0.1:{}/file", test::closed_port());
  EXPECT_ERROR(download(closed, folder / "file"), InputError, closed + ": Failed to connect to 127.0.0.1");
  EXPECT_ERROR(download("https://bridle.invalid/file", folder / "file"), InputError, "bridle.invalid");
  EXPECT_ERROR(download("ftp://127.0.0.1/file", folder / "file"), InputError, "Protocol \"ftp\"");
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Download, DoesNotWaitLongForAConnection) {
  const TemporaryFolder folder;
  const test::DeafPort port;
  const EnvironmentVariable direct("no_proxy", "*");
  const std::string url = fmt::format("http://127.0.0.1:{}/file", port.number());
  EXPECT_ERROR(download(url, folder / "file", {}, {.connect_seconds = 1}), InputError, url);
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Download, AsksTheProxyOfTheEnvironment) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  const EnvironmentVariable proxy("http_proxy", server.url("")), direct("no_proxy", "");
  EXPECT_ERROR(download("http://bridle.invalid/file", folder / "file"), InputError, "HTTP status 404");
  EXPECT_EQ(server.log(), Names{"http://bridle.invalid/file"});
}

TEST(Download, RefusesAFileWithAnotherChecksum) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  const std::string wrong(64, '0');
  write_file(folder / "expected", body());
  const std::string right = sha256_of_file(folder / "expected");
  EXPECT_ERROR(download_checked(server.url("/file"), folder / "file", wrong), InputError,
               fmt::format("SHA-256 {} expected, {} got", wrong, right));
  EXPECT_EQ(entries(folder), Names{"expected"});
  write_file(folder / "file.part", std::string(1000, 'x'));  // a part of another file
  EXPECT_ERROR(download_checked(server.url("/file"), folder / "file", right), InputError, "got");
  EXPECT_EQ(entries(folder), Names{"expected"});
  download_checked(server.url("/file"), folder / "file", right);
  EXPECT_TRUE(read_file(folder / "file") == body());
}

TEST(Download, SaysThatTheDiskIsFull) {
  const TemporaryFolder folder;
  const HttpServer server(body(3000000));
  std::filesystem::create_symlink("/dev/full", folder / "full.part");
  EXPECT_ERROR(download(server.url("/file"), folder / "full"), InputError,
               "full.part: No space left on device");
  {
    const FileSizeLimit limit(100000);
    EXPECT_ERROR(download(server.url("/file"), folder / "file"), InputError, "file.part: File too large");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "file"));
  download(server.url("/file"), folder / "file");
  EXPECT_TRUE(read_file(folder / "file") == body(3000000));
  EXPECT_EQ(server.log().back(), "/file from 100000");
}

TEST(Download, SaysThatThePlaceCannotBeWritten) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  write_file(folder / "not_a_folder", "");
  EXPECT_ERROR(download(server.url("/file"), folder / "missing" / "file"), InputError,
               "No such file or directory");
  EXPECT_ERROR(download(server.url("/file"), folder / "not_a_folder" / "file"), InputError,
               "Not a directory");
  EXPECT_ERROR(download(server.url("/file"), "/proc/file"), InputError, "[write] /proc/file.part");
}

TEST(Download, EndsWhereTheListenerThrows) {
  const TemporaryFolder folder;
  const HttpServer server(body());
  const auto listener = [](const Progress&) { throw InputError("test", "enough"); };
  EXPECT_ERROR(download(server.url("/file"), folder / "file", listener), InputError, "enough");
  EXPECT_FALSE(std::filesystem::exists(folder / "file"));
}

}  // namespace
}  // namespace bridle
