// Signals that ask a run, or a sweep, to save and end.
#pragma once

#include <atomic>

namespace bridle {

extern std::atomic<bool> stop_requested;

// From here on SIGINT, SIGTERM and SIGHUP set `stop_requested`. `second_ends`: the same one again ends the process at once.
void stop_on_signals(bool second_ends);

}  // namespace bridle
