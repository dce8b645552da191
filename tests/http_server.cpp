// See http_server.h.
#include "http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace bridle::test {
namespace {

std::pair<int, int> listen_anywhere(int backlog = 16) {  // socket, port
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  (void)::bind(listener, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener, backlog);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return {listener, ntohs(address.sin_port)};
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string receive_head(int connection) {
  std::string head;
  std::array<char, 4096> buffer{};
  while (head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
    if (count <= 0) return {};
    head.append(buffer.data(), static_cast<size_t>(count));
  }
  return head;
}

}  // namespace

HttpServer::HttpServer(std::string body) : body_(std::move(body)) {
  std::tie(listener_, port_) = listen_anywhere();
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  ::shutdown(listener_, SHUT_RDWR);  // accept returns
  thread_.join();
  ::close(listener_);
}

std::string HttpServer::url(const std::string& route) const {
  return fmt::format("http://127.0.0.1:{}{}", port_, route);
}

std::vector<std::string> HttpServer::log() const {
  const std::lock_guard guard(mutex_);
  return log_;
}

void HttpServer::serve() {
  for (int connection = 0; (connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    answer(connection);
    ::close(connection);
  }
}

void HttpServer::answer(int connection) {
  const std::string head = receive_head(connection);
  const size_t start = head.find(' ') + 1;
  const std::string route = head.substr(start, head.find(' ', start) - start);
  const size_t range = head.find("Range: bytes=");
  const size_t from = range == std::string::npos ? 0 : std::stoul(head.substr(range + 13));
  {
    const std::lock_guard guard(mutex_);
    log_.push_back(from == 0 ? route : fmt::format("{} from {}", route, from));
  }
  const auto status = [&](const std::string& line, const std::string& more = "") {
    send_all(connection,
             fmt::format("HTTP/1.1 {}\r\n{}Content-Length: 4\r\nConnection: close\r\n\r\npage", line, more));
  };
  if (route == "/moved") return status("302 Found", "Location: /file\r\n");
  if (route == "/elsewhere") return status("302 Found", "Location: file:///etc/hostname\r\n");
  if (route == "/broken") return status("500 Internal Server Error");
  if (route != "/file" && route != "/whole" && route != "/lies" && route != "/cut" && route != "/stall")
    return status("404 Not Found");
  if (from > 0 && from >= body_.size()) return status("416 Range Not Satisfiable");
  send_file(connection, route, route == "/whole" ? 0 : from);
}

void HttpServer::send_file(int connection, const std::string& route, size_t from) const {
  std::string_view rest = body_;
  rest.remove_prefix(from);
  const size_t claimed = route == "/lies" ? from / 2 : from;
  std::string head = from == 0
                         ? "HTTP/1.1 200 OK\r\n"
                         : fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n",
                                       claimed, body_.size() - 1, body_.size());
  send_all(connection, head + fmt::format("Content-Length: {}\r\nConnection: close\r\n\r\n", rest.size()));
  const bool half = route == "/cut" || route == "/stall";
  send_all(connection, rest.substr(0, half ? rest.size() / 2 : rest.size()));
  char byte = 0;
  if (route == "/stall") ::recv(connection, &byte, 1, 0);  // until the other side gives up
}

int closed_port() {
  const auto [listener, port] = listen_anywhere();
  ::close(listener);
  return port;
}

DeafPort::DeafPort() {
  const auto [listener, port] = listen_anywhere(0);
  number_ = port;
  sockets_.push_back(listener);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  for (int i = 0; i < 4; ++i) {  // more than its queue takes
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(sockets_.back(), reinterpret_cast<sockaddr*>(&address), size);
  }
}

DeafPort::~DeafPort() {
  for (const int socket : sockets_) ::close(socket);
}

}  // namespace bridle::test
