// Two pieces of work, timed in turn in one run.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/stopwatch.h"

namespace bridle {

using Action = std::function<void()>;

inline double seconds(const Action& action) {
  const Timer timer;
  action();
  return timer.seconds();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Counters: ratio (median of op / median of bare), op_us, bare_us.
inline void compare(benchmark::State& state, const Action& op, const Action& bare) {
  op();
  bare();
  std::vector<double> op_times, bare_times;
  for (auto _ : state) {
    op_times.push_back(seconds(op));
    bare_times.push_back(seconds(bare));
    state.SetIterationTime(op_times.back());
  }
  state.counters["op_us"] = 1e6 * median(op_times);
  state.counters["bare_us"] = 1e6 * median(bare_times);
  state.counters["ratio"] = median(op_times) / median(bare_times);
}

}  // namespace bridle
