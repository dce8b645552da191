// See stop_signals.h.
#include "stop_signals.h"

#include <array>
#include <csignal>

namespace bridle {

std::atomic<bool> stop_requested{false};

namespace {
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> first_signal{0};
std::atomic<bool> end_at_second{false};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may set it
}  // namespace

void stop_on_signals(bool second_ends) {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    int none = 0;
    first_signal.compare_exchange_strong(none, signal);
    stop_requested = true;
    if (!end_at_second) return;
    for (const int other : kSignals) std::signal(other, SIG_DFL);
  };
  end_at_second = second_ends;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void end_by_signal() { throw StoppedBySignal{128 + first_signal}; }

}  // namespace bridle
