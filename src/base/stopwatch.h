// Where the time goes, lap by lap: the seconds since the last lap are added to a member of `Times`. Where nobody keeps
// times the pointer is null, and nothing is measured.
#pragma once

#include <chrono>

namespace bridle {

template <class Times>
class Stopwatch {
 public:
  explicit Stopwatch(Times* times)
      : times_(times), last_(times == nullptr ? Clock::time_point{} : Clock::now()) {}

  void lap(double Times::*part) {
    if (times_ == nullptr) return;
    const Clock::time_point now = Clock::now();
    times_->*part += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Times* times_;
  Clock::time_point last_;
};

}  // namespace bridle
