// TCP connections that carry lines of text, for what ranks tell each other besides tensors.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bridle {

// A file descriptor that is closed once.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int number() const { return number_; }

 private:
  int number_;
};

// A connection that never makes anybody wait: what cannot be sent is lost, and what has not come is not there.
class LineSocket {
 public:
  explicit LineSocket(Descriptor descriptor);

  bool send(std::string_view line);        // one that holds no end of line; false: nobody hears it
  bool receive();                          // takes what has come; false: the other end is closed
  std::optional<std::string> next_line();  // of what was taken
  int descriptor() const { return descriptor_.number(); }

  std::string own_address() const;    // the numeric address of this end
  std::string other_address() const;  // and of the other

 private:
  Descriptor descriptor_;
  std::string received_;
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// Throws RankError for an address that is none of this machine's, or is in use.
Descriptor listen_at(const HostPort& place);
uint16_t port_of(const Descriptor& listener);
std::optional<LineSocket> accept_from(const Descriptor& listener, std::chrono::milliseconds wait);

// None where nobody listens there (yet), or nobody answers within this time.
std::optional<LineSocket> connect_to(const HostPort& place, std::chrono::milliseconds wait);

// An address of this machine that others may reach: the first that is not its loopback, or else that.
std::string address_of_this_machine();

}  // namespace bridle
