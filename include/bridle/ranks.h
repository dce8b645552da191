// Processes that train one model together, on one machine or on several: each has a rank, counted from 0, and rank 0 leads.
//
//   const auto ranks = join_ranks({.rank = 1, .size = 2, .rendezvous = "tcp:10.0.0.1:29400"});
//   Trainer(options, "runs/first", {}, ranks).run();
//   ranks->leave();
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridle/error.h"

namespace bridle {

class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  bool leads() const { return rank() == 0; }

  // Bytes (kByte, [n], contiguous, on the CPU): to[r] goes to rank r, and what r sends here fills from[r]. Own places and empty tensors
  // are passed over. All ranks call it together, with sizes that fit. Throws RankError, naming the rank, where one is gone.
  virtual void exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) = 0;

  // This rank cannot go on, and why: all others throw RankError with its number and the reason.
  virtual void fail(const std::string& why) noexcept = 0;

  // All have done their work: waits for them. Whoever goes without it is taken for lost.
  virtual void leave() = 0;
};

std::shared_ptr<Ranks> alone();  // one process; it exchanges nothing

struct JoinOptions {
  int64_t rank = 0;
  int64_t size = 1;
  std::string rendezvous =
      {};  // tcp:HOST:PORT, where rank 0 listens; file:PATH, where rank 0 writes its address
  std::chrono::milliseconds timeout = std::chrono::minutes(2);  // without a word from a rank
  std::string version = {};  // all ranks must have the same; empty: that of this library
};

// Waits until all are there. Throws InputError for options that make no sense, RankError where a rank does not come, comes twice or
// has another version.
std::shared_ptr<Ranks> join_ranks(const JoinOptions& options);

// Why this build cannot join more than one process; empty where it can.
std::string why_no_ranks();

}  // namespace bridle
