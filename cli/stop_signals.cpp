// See stop_signals.h.
#include "stop_signals.h"

#include <csignal>
#include <initializer_list>

namespace bridle {

std::atomic<bool> stop_requested{false};

namespace {
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may set it
}  // namespace

void stop_on_signals(bool second_ends) {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    int none = 0;
    first_signal.compare_exchange_strong(none, signal);
    stop_requested = true;
  };
  action.sa_flags = second_ends ? static_cast<int>(SA_RESETHAND) : 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

void end_by_signal() { throw StoppedBySignal{128 + first_signal}; }

}  // namespace bridle
