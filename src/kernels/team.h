// Threads that share work. What is computed never depends on how many there are or which one was faster: every item writes to
// its own place, and tasks that add to the same sums run in their order. Denormals count as zero meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/flush_denormals.h"

namespace bridle {

// A team of one works on the calling thread.
class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}
  int threads() const { return threads_; }

  // item(i, member) for every i < count, in any order; `member` < threads() tells members apart. Items must not throw.
  template <class Item>
  void each(int64_t count, const Item& item) const {
    if (threads_ == 1 || count == 1) {
      const FlushDenormals flush;
      for (int64_t i = 0; i < count; ++i) item(i, 0);
      return;
    }
    share(count, item);
  }

 private:
  void share(int64_t count, const std::function<void(int64_t, int)>& item) const;
  int threads_;
};

Team team_of_all();  // as many as LibTorch uses; one inside a parallel region

// task(i, slot, member) for i < count. Task i belongs to slot i % slots; those of one slot run one after another, in their
// order, so that they may add to what is the slot's. Free members take from the slot that has most left.
void run_in_slots(const Team& team, int64_t count, int64_t slots,
                  const std::function<void(int64_t, int64_t, int)>& task);

// item(i) for every i, of `sizes[i]` each, in any order: a thread takes whole items where none is so large that the others would
// wait for it, and otherwise items come one after another and may use all threads themselves. Work on tensors, without
// gradients; the exception of the first item that has one is thrown once all have ended.
void each_apart(std::span<const int64_t> sizes, const std::function<void(size_t)>& item);

}  // namespace bridle
