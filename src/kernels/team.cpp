// See team.h.
#include "kernels/team.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <omp.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <vector>

namespace bridle {
namespace {

struct Slot {
  int64_t next;
  int64_t left;
  bool busy = false;
};

// The free slot with most left, or none.
Slot* choose(std::vector<Slot>& slots) {
  Slot* best = nullptr;
  for (Slot& slot : slots) {
    if (!slot.busy && slot.left > 0 && (best == nullptr || slot.left > best->left)) best = &slot;
  }
  return best;
}

}  // namespace

void Team::share(int64_t count, const std::function<void(int64_t, int)>& item) const {
#pragma omp parallel num_threads(threads_)
  {
    const FlushDenormals flush;
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < count; ++i) item(i, omp_get_thread_num());
  }
}

Team team_of_all() { return Team(at::in_parallel_region() ? 1 : at::get_num_threads()); }

void run_in_slots(const Team& team, int64_t count, int64_t slots,
                  const std::function<void(int64_t, int64_t, int)>& task) {
  std::vector<Slot> state;
  for (int64_t slot = 0; slot < slots; ++slot)
    state.push_back({slot, count / slots + (slot < count % slots ? 1 : 0)});
  std::mutex mutex;
  // A member that finds nothing free is done: what is left belongs to slots that others hold, and they go on with them.
  const auto work = [&](int member) {
    const FlushDenormals flush;
    std::unique_lock lock(mutex);
    while (Slot* slot = choose(state)) {
      slot->busy = true;
      lock.unlock();
      task(slot->next, slot - state.data(), member);
      lock.lock();
      slot->next += slots;
      --slot->left;
      slot->busy = false;
    }
  };
  if (team.threads() == 1) return work(0);
#pragma omp parallel num_threads(team.threads())
  work(omp_get_thread_num());
}

// No parallel region of one thread anywhere here: what is parallel inside of it would start new threads every time.
void each_apart(std::span<const int64_t> sizes, const std::function<void(size_t)>& item) {
  const int threads = team_of_all().threads();
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const int64_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::exception_ptr> failures(sizes.size());
  const auto guarded = [&](size_t i) {
    const at::NoGradGuard no_gradients;
    try {
      item(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  if (threads > 1 && largest * threads <= total) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (size_t i = 0; i < sizes.size(); ++i) guarded(i);
  } else {
    for (size_t i = 0; i < sizes.size(); ++i) guarded(i);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace bridle
