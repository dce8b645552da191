// How far a long piece of work has come, told to whoever listens. The library never prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace bridle {

struct Progress {
  std::string what;   // "download data.txt"
  int64_t done = 0;   // never falls while `what` stays the same
  int64_t total = 0;  // 0: not known
  std::string unit;   // "bytes", "tokens", "images"
};

// Called on the thread that does the work, possibly thousands of times a second. What it throws ends the work and
// reaches the caller. An empty function: nobody listens.
using OnProgress = std::function<void(const Progress&)>;

inline void report(const OnProgress& on_progress, const Progress& progress) {
  if (on_progress) on_progress(progress);
}

}  // namespace bridle
