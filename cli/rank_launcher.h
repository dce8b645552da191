// This program several times over, as the ranks of one training on this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bridle {

struct RankLaunch {
  int64_t ranks = 1;
  int64_t restarts = 0;  // of all, after one has failed
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
  // The words after "bridle", for the first start and for those after a failure.
  std::function<std::vector<std::string>(bool again)> arguments = {};
};

// The exit code: 0 where all have ended well, what one says of its own error, 4 where one was lost; of a signal's after
// SIGINT, SIGTERM or SIGHUP, which all are told.
int run_ranks(const RankLaunch& launch);

// Thrown where all has been said; main turns it into the exit code.
struct EndedWith {
  int exit_code;
};

// A rank that run_ranks has started ends with the process that did.
void follow_launcher();

}  // namespace bridle
