// Signals that ask a run, or a sweep, to save and end. The program's exit code is then what a shell reports for a process that
// the signal ended, 128 + its number: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
#pragma once

#include <atomic>

namespace bridle {

extern std::atomic<bool> stop_requested;

// From here on SIGINT, SIGTERM and SIGHUP set `stop_requested`. `second_ends`: the same one again ends the process at once.
void stop_on_signals(bool second_ends);

// Thrown once everything is saved, where a signal left work undone; main turns it into the exit code.
struct StoppedBySignal {
  int exit_code;
};

[[noreturn]] void end_by_signal();  // throws StoppedBySignal for the first signal that came

}  // namespace bridle
