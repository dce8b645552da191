// See stop_signals.h.
#include "stop_signals.h"

#include <csignal>

namespace bridle {

std::atomic<bool> stop_requested{false};

void stop_on_signals(bool second_ends) {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_requested = true; };
  action.sa_flags = second_ends ? static_cast<int>(SA_RESETHAND) : 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

}  // namespace bridle
