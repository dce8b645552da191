// See bridle/loader.h. Examples are laid on a grid of one stride: slot s of a round starts at phase + s·stride. `random`
// takes a new phase and a new permutation of the slots every batch, `shuffled` every epoch, `sequential` never.
#include "bridle/loader.h"

#include <ATen/Parallel.h>
#include <ATen/TensorAccessor.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/permutation.h"
#include "bridle/error.h"
#include "bridle/random.h"

namespace bridle {

const char* word(Order order) {
  switch (order) {
    case Order::random:
      return "random";
    case Order::shuffled:
      return "shuffled";
    case Order::sequential:
      return "sequential";
  }
  return nullptr;
}

namespace {

// How many examples a stride apart fit from the start of the source, whatever the phase below one stride.
int64_t slots_at_any_phase(const Source& source) {
  return std::max<int64_t>(1, source.size() / source.stride());
}

// A round: one draw of phase and order.
class Round {
 public:
  // `random` lays as many slots as fit at its phase, so that every start is reached, and equally often but for one slot
  // more or less. `shuffled` has the same number at every phase, and leaves out less than two strides a round.
  Round(const Source& source, const LoaderOptions& options, int64_t number) : stride_(source.stride()) {
    const int64_t slots = slots_at_any_phase(source);
    const bool random = options.order == Order::random;
    const int64_t phases = random ? std::min(stride_, source.size()) : source.size() - (slots - 1) * stride_;
    const at::Tensor drawn =
        random_integers({1}, static_cast<uint64_t>(phases), key(options.seed, 2 * number + 1));
    phase_ = drawn.accessor<int64_t, 1>()[0];
    const int64_t count = random ? (source.size() - 1 - phase_) / stride_ + 1 : slots;
    slots_.emplace(static_cast<uint64_t>(count), key(options.seed, 2 * number));
  }
  int64_t start(int64_t index) const {
    return phase_ + static_cast<int64_t>((*slots_)(static_cast<uint64_t>(index))) * stride_;
  }

 private:
  static RandomKey key(uint64_t seed, int64_t step) {
    return {.seed = seed, .stream = Stream::data_order, .step = static_cast<uint64_t>(step)};
  }
  int64_t stride_;
  int64_t phase_ = 0;
  std::optional<Permutation> slots_;
};

void check_slices(const LoaderOptions& options) {
  const LoaderSlices& slices = options.slices;
  if (slices.per_batch < 1 || options.batch_size % slices.per_batch != 0)
    throw InputError("loader", fmt::format("batch_size = {} must be a multiple of the {} slices of a batch",
                                           options.batch_size, slices.per_batch));
  if (slices.first < 0 || slices.count < 1 || slices.first + slices.count > slices.stride)
    throw InputError("loader", fmt::format("slices {} to {} must be some of the {} of a step", slices.first,
                                           slices.first + slices.count - 1, slices.stride));
}

}  // namespace

// Makes slices in their order on one thread and hands them out; an error is handed out in its batch's place.
class Loader::Ahead {
 public:
  Ahead(const Loader& loader, int64_t first)
      : loader_(loader), next_(first), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  Batch take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !made_.empty(); });
    Made made = std::move(made_.front());
    made_.pop_front();
    changed_.notify_all();
    if (made.error) std::rethrow_exception(made.error);
    return std::move(made.batch);
  }

 private:
  struct Made {
    Batch batch;
    std::exception_ptr error;
  };

  void run(const std::stop_token& stop) {
    at::get_num_threads();   // LibTorch sets a thread's number at its first use, over what was set before
    omp_set_num_threads(1);  // of this thread alone: the cores belong to training
    while (true) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return std::ssize(made_) < loader_.options_.prefetch; }))
          return;
      }
      Made made;
      try {
        made.batch = loader_.source_->read(loader_.starts(next_++));
      } catch (...) {
        made.error = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      made_.push_back(std::move(made));
      changed_.notify_all();
    }
  }

  const Loader& loader_;
  int64_t next_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Made> made_;
  std::jthread thread_;  // last: it ends before what it uses
};

Loader::Loader(std::shared_ptr<const Source> source, const LoaderOptions& options)
    : source_(std::move(source)), options_(options) {
  if (options.batch_size < 1)
    throw InputError("loader", fmt::format("batch_size must be at least 1, got {}", options.batch_size));
  check_slices(options);
  seek(0);
}

Loader::~Loader() = default;

void Loader::seek(int64_t position) {
  if (position < 0) throw InputError("loader", fmt::format("position {}; positions count from 0", position));
  ahead_.reset();
  position_ = position;
  if (options_.prefetch > 0) ahead_ = std::make_unique<Ahead>(*this, position);
}

Batch Loader::next() {
  try {
    Batch batch = ahead_ ? ahead_->take() : source_->read(starts(position_));
    ++position_;
    return batch;
  } catch (...) {
    seek(position_);  // the same batch comes next
    throw;
  }
}

std::vector<int64_t> Loader::starts(int64_t position) const {
  const int64_t slots = slots_at_any_phase(*source_);
  const LoaderSlices& slices = options_.slices;
  const int64_t rows = options_.batch_size / slices.per_batch;
  const int64_t slice = position / slices.count * slices.stride + slices.first + position % slices.count;
  const int64_t batch = slice / slices.per_batch, first = slice % slices.per_batch * rows;
  const int64_t rounds_per_batch = (options_.batch_size + slots - 1) / slots;
  const int64_t in_sequence = (source_->size() - 1) / source_->stride() + 1;
  std::optional<Round> round;
  int64_t round_number = -1;
  std::vector<int64_t> result;
  for (int64_t row = first; row < first + rows; ++row) {
    const int64_t index = options_.order == Order::random ? row : batch * options_.batch_size + row;
    if (options_.order == Order::sequential) {
      result.push_back(index % in_sequence * source_->stride());
      continue;
    }
    const int64_t before = options_.order == Order::random ? batch * rounds_per_batch : 0;
    if (before + index / slots != round_number) {
      round_number = before + index / slots;
      round.emplace(*source_, options_, round_number);
    }
    result.push_back(round->start(index % slots));
  }
  return result;
}

}  // namespace bridle
