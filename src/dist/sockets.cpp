// See sockets.h.
#include "dist/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const HostPort& place, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &found);
  if (error != 0)
    throw RankError("ranks", fmt::format("{}: {}; name rank 0's machine as this one can find it", place.host,
                                         gai_strerror(error)));
  return {found, freeaddrinfo};
}

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(address, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return host.data();
}

std::string address_at(int descriptor, int (*which)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);  // NOLINT: as sockets want it
  return which(descriptor, any, &length) == 0 ? numeric(any, length) : "";
}

bool ready(int descriptor, short events, std::chrono::milliseconds wait) {
  pollfd one{descriptor, events, 0};
  return poll(&one, 1, static_cast<int>(wait.count())) > 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}
Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

LineSocket::LineSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {
  const int on = 1;
  setsockopt(descriptor_.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(descriptor_.number(), F_SETFL, O_NONBLOCK);
  fcntl(descriptor_.number(), F_SETFD, FD_CLOEXEC);
}

bool LineSocket::send(std::string_view line) {
  std::string text(line);
  for (char& letter : text)
    if (letter == '\n') letter = ' ';
  text += '\n';
  return ::send(descriptor_.number(), text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
}

bool LineSocket::receive() {
  std::array<char, 4096> buffer;  // NOLINT: recv fills it
  while (true) {
    const ssize_t count = recv(descriptor_.number(), buffer.data(), buffer.size(), 0);
    if (count > 0) {
      received_.append(buffer.data(), static_cast<size_t>(count));
      constexpr size_t longest = size_t{1} << 20;
      if (received_.size() > longest) return false;  // not one of ours
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
}

std::optional<std::string> LineSocket::next_line() {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::string LineSocket::own_address() const { return address_at(descriptor(), getsockname); }
std::string LineSocket::other_address() const { return address_at(descriptor(), getpeername); }

Descriptor listen_at(const HostPort& place) {
  const Addresses found = addresses_of(place, AI_PASSIVE);
  std::string reason = "no address";
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    Descriptor listener(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    const int on = 1;
    setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener.number(), at->ai_addr, at->ai_addrlen) == 0 && listen(listener.number(), 1024) == 0)
      return listener;
    reason = std::strerror(errno);
  }
  throw RankError("ranks", fmt::format("rank 0 cannot listen at {}:{}: {}; name another port, or an address "
                                       "of rank 0's machine",
                                       place.host, place.port, reason));
}

uint16_t port_of(const Descriptor& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &length);                    // NOLINT
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port  // NOLINT
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);  // NOLINT
}

std::optional<LineSocket> accept_from(const Descriptor& listener, std::chrono::milliseconds wait) {
  if (!ready(listener.number(), POLLIN, wait)) return std::nullopt;
  Descriptor connection(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.number() < 0) return std::nullopt;
  return LineSocket(std::move(connection));
}

std::optional<LineSocket> connect_to(const HostPort& place, std::chrono::milliseconds wait) {
  const Addresses found = addresses_of(place, 0);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    Descriptor own(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
    if (connect(own.number(), at->ai_addr, at->ai_addrlen) != 0) {
      if (errno != EINPROGRESS || !ready(own.number(), POLLOUT, wait)) continue;
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(own.number(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) continue;
    }
    return LineSocket(std::move(own));
  }
  return std::nullopt;
}

std::string address_of_this_machine() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(all, freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    const bool serves = at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET &&
                        (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (serves) return numeric(at->ifa_addr, sizeof(sockaddr_in));
  }
  return "127.0.0.1";
}

}  // namespace bridle
