// See rendezvous.h.
#include "dist/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <sstream>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw InputError("ranks", fmt::format("--rendezvous must be tcp:HOST:PORT or file:PATH, got '{}'", text));
}

uint16_t port_in(const std::string& digits, const std::string& text) {
  const bool number =
      !digits.empty() && digits.size() < 6 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoi(digits) > 65535) refuse(text);
  return static_cast<uint16_t>(std::stoi(digits));
}

}  // namespace

Rendezvous::Rendezvous(const std::string& text) : text_(text) {
  const size_t first = text.find(':'), last = text.rfind(':');
  if (first == std::string::npos || first + 1 == text.size()) refuse(text);
  const std::string kind = text.substr(0, first);
  if (kind == "file") {
    file_ = text.substr(first + 1);
    return;
  }
  if (last == first) refuse(text);
  const std::string middle = text.substr(first + 1, last - first - 1);
  place_ = {middle, port_in(text.substr(last + 1), text)};
  if (kind == "descriptor") {
    place_.host = "127.0.0.1";
    descriptor_ = port_in(middle, text);
  } else if (kind != "tcp" || middle.empty()) {
    refuse(text);
  }
}

Descriptor Rendezvous::listen() {
  if (descriptor_ >= 0) return Descriptor(descriptor_);
  if (file_.empty()) return listen_at(place_);
  Descriptor listener = listen_at({"0.0.0.0", 0});
  word_ = fmt::format("{:x}-{:x}", getpid(), std::chrono::steady_clock::now().time_since_epoch().count());
  write_file(file_, fmt::format("{} {} {}\n", address_of_this_machine(), port_of(listener), word_));
  return listener;
}

void Rendezvous::close() {
  std::error_code gone_already;
  if (!file_.empty()) std::filesystem::remove(file_, gone_already);
}

std::optional<LineSocket> Rendezvous::connect(std::chrono::milliseconds wait) {
  if (file_.empty()) return connect_to(place_, wait);
  std::error_code missing;
  if (!std::filesystem::is_regular_file(file_, missing)) return std::nullopt;
  constexpr uint64_t longest = 1000;
  std::istringstream text(read_file(file_, longest));
  HostPort place;
  if (!(text >> place.host >> place.port >> word_)) return std::nullopt;
  return connect_to(place, wait);
}

}  // namespace bridle
