// Time that has passed: Timer, and Stopwatch, which adds it lap by lap to the members of a struct.
#pragma once

#include <chrono>

namespace bridle {

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

  // The seconds since the start or the last lap.
  double lap() {
    const Clock::time_point before = start_;
    start_ = Clock::now();
    return std::chrono::duration<double>(start_ - before).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Where the time goes: the seconds since the last lap are added to a member of `Times`. Where nobody keeps times the pointer
// is null, and nothing is measured.
template <class Times>
class Stopwatch {
 public:
  explicit Stopwatch(Times* times) : times_(times) {}

  void lap(double Times::*part) {
    if (times_ != nullptr) times_->*part += timer_.lap();
  }

 private:
  Times* times_;
  Timer timer_;
};

}  // namespace bridle
