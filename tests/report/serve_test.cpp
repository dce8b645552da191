#include "bridle/serve.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
namespace fs = std::filesystem;

constexpr const char* kPage = R"(<script type="application/json" id="bridle-data">null</script>)";

// A server in a thread of its own, asked with curl: another implementation of HTTP.
class Serving {
 public:
  explicit Serving(const fs::path& folder)
      : folder_(folder), server_(folder, kPage, {.port = 0}), thread_([this] { server_.run(); }) {}
  ~Serving() {
    server_.stop();
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  // Status, headers and body.
  std::string ask(const std::string& path, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> command = {"curl", "-sS",     "-i", "--path-as-is",       "--noproxy",
                                        "*",    "--retry", "5",  "--retry-connrefused"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.push_back(fmt::format("http://127.0.0.1:{}{}", server_.port(), path));
    const ProgramResult result = run_program(command, folder_);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  }
  int status(const std::string& path, const std::vector<std::string>& flags = {}) const {
    return std::stoi(ask(path, flags).substr(9, 3));
  }

 private:
  fs::path folder_;
  ReportServer server_;
  std::thread thread_;
};

class Serve : public testing::Test {
 protected:
  Serve() {
    fs::create_directories(folder_ / "runs/a");
    write_file(folder_ / "runs/a/metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
    write_file(folder_ / "secret", "secret");
  }
  TemporaryFolder folder_;
};

TEST_F(Serve, GivesThePageAndItsData) {
  const Serving server(folder_ / "runs");
  const std::string page = server.ask("/a/");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200"));
  EXPECT_NE(page.find("\"live\":true"), std::string::npos) << page;
  EXPECT_NE(page.find("nosniff"), std::string::npos);
  const std::string data = server.ask("/data.json");
  const auto parsed = nlohmann::json::parse(data.substr(data.find("\r\n\r\n")));
  EXPECT_EQ(parsed["runs"][0]["metrics"]["last"]["loss"], 2);
  EXPECT_EQ(server.status("/", {"--head"}), 200);
}

TEST_F(Serve, SaysThatNothingHasChangedUntilALineIsWritten) {
  const Serving server(folder_ / "runs");
  const std::string answer = server.ask("/data.json");
  const size_t at = answer.find("ETag: ") + 6;
  const std::string tag = "If-None-Match: " + answer.substr(at, answer.find('\r', at) - at);
  EXPECT_EQ(server.status("/data.json", {"-H", tag}), 304);
  write_file(folder_ / "runs/a/metrics.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n");
  EXPECT_EQ(server.status("/data.json", {"-H", tag}), 200);
}

TEST_F(Serve, RefusesOtherPathsHostsAndMethods) {
  const Serving server(folder_ / "runs");
  for (const char* path : {"/../secret", "/%2e%2e/secret", "/..%2fsecret", "/a/metrics.jsonl", "/a/../../",
                           "/%2e%2e/", "/none/", "/a/%00/"}) {
    const std::string answer = server.ask(path);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4")) << path << answer;
    EXPECT_EQ(answer.find("secret\n"), std::string::npos) << path;
  }
  for (const char* host :
       {"example.org", "example.org:8420", "localhost.example.org", "127.0.0.1.example.org", ""})
    EXPECT_EQ(server.status("/", {"-H", std::string("Host: ") + host + (*host == 0 ? "x" : "")}), 403)
        << host;
  for (const char* host : {"localhost", "localhost:1", "127.0.0.1", "[::1]:8420"})
    EXPECT_EQ(server.status("/", {"-H", std::string("Host: ") + host}), 200) << host;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
    EXPECT_EQ(server.status("/", {"-X", method}), 405) << method;
}

TEST_F(Serve, RefusesAPortThatIsTakenAndAFolderThatIsNot) {
  const ReportServer first(folder_ / "runs", kPage, {.port = 0});
  EXPECT_ERROR(ReportServer(folder_ / "none", kPage, {.port = 0}), InputError, "is not a folder");
  EXPECT_ERROR(ReportServer(folder_ / "runs", kPage, {.host = "192.0.2.1", .port = 0}), InputError,
               "cannot be bound to");
}

}  // namespace
}  // namespace bridle
