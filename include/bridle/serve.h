// The page of `bridle report` over HTTP, following runs while they train. It answers GET and HEAD alone, for folders inside its own,
// and only requests that name this machine as their host, so that no other site's page can read it.
//
//   ReportServer server("runs", report_template(program), {.port = 8420});
//   server.run();                                  // until stop() in another thread
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace bridle {

struct ServeOptions {
  std::string host = "127.0.0.1";  // the address that it binds to
  int port = 8420;                 // 0: any that is free
};

class ReportServer {
 public:
  // Binds. Throws InputError where the folder or the port cannot be had.
  ReportServer(const std::filesystem::path& folder, std::string page, const ServeOptions& options = {});
  ~ReportServer();

  int port() const;
  void run();   // answers until stop()
  void stop();  // from any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bridle
