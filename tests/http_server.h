// A small HTTP server on this machine that answers well or badly, one request at a time.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "file_support.h"

namespace bridle::test {

// Its routes: /file, with ranges; /whole, which knows none; /lies, whose ranges begin elsewhere; /cut, which closes
// halfway; /stall, which falls silent halfway; /moved and /elsewhere, which redirect to /file and to a file:// address;
// /broken with status 500; anything else is 404 with a page.
class HttpServer {
 public:
  explicit HttpServer(std::string body);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& route) const;
  std::vector<std::string> log() const;  // "/file", "/file from 100"

 private:
  void serve();
  void answer(int connection);
  void send_file(int connection, const std::string& route, size_t from) const;

  EnvironmentVariable direct_{"no_proxy", "*"};
  std::string body_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
  std::thread thread_;
};

int closed_port();  // one that nobody listens on

// A port where connections are neither taken nor refused, as behind a firewall.
class DeafPort {
 public:
  DeafPort();
  ~DeafPort();
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;
  int number() const { return number_; }

 private:
  int number_ = 0;
  std::vector<int> sockets_;
};

}  // namespace bridle::test
