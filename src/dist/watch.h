// Who is there: every rank has a connection to rank 0, over which it says at short intervals that it is alive. A rank that is killed
// closes its connection, one that is stopped or cut off says nothing more. Rank 0 tells all the first that went wrong, so that
// all end for the same reason; where rank 0 itself is gone, each sees it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dist/rendezvous.h"

namespace bridle {

struct WatchOptions {
  int64_t rank = 0;
  int64_t size = 1;
  std::string rendezvous = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
  std::string version = {};
  std::string facts = {};                 // of rank 0, for all others
  std::function<void()> on_failure = {};  // on the thread that watches
};

class Watch {
 public:
  // Waits until all are there. Throws RankError where one does not come within the timeout, comes twice or has another version.
  explicit Watch(WatchOptions options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  const std::string& facts() const { return options_.facts; }
  const std::string& leader_address() const { return leader_address_; }
  const std::string& own_address() const { return own_address_; }  // as others reach this machine

  std::optional<std::string> failure() const;
  void fail(const std::string& why);  // this rank, which others learn

  // What went wrong, where this rank has noticed that something did: what rank 0 says of it, or else the guess.
  std::string verdict(const std::string& guess);

  void leave();  // waits for all; returns at once where one has failed

 private:
  struct Member {
    LineSocket socket;
    int64_t rank;
    std::chrono::steady_clock::time_point heard;
    bool left = false;
    bool open = true;
  };

  void gather();  // rank 0
  void admit(LineSocket socket, std::vector<bool>& here);
  void join();
  void watch(const std::stop_token& stop);
  void listen_to(Member& member);
  void take(Member& member, const std::string& line);
  void look_for_silence();
  void decide(const std::string& failure);  // the first one counts
  void tell_all(const std::string& line);
  std::string name(int64_t rank) const;
  bool all_left() const;

  WatchOptions options_;
  std::string leader_address_, own_address_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;  // of rank 0: all others; of others: rank 0
  std::optional<std::string> failure_;
  bool leaving_ = false, released_ = false;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace bridle
