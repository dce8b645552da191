// Loader: batches for training, made ahead on a thread of its own. Batch number i is a function of (data, options, i)
// alone, so any number of threads gives the same batches and a position is all there is to save.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bridle/data.h"

namespace bridle {

// random      every batch is a fresh draw: disjoint examples, laid at a random phase of the text
// shuffled    every example once per epoch, in an order and phase of that epoch
// sequential  the data as it stands, over and over
enum class Order { random, shuffled, sequential };
const char* word(Order order);  // in recipes; null past the last

// Which parts of the batches a loader makes, where several processes share them: every batch is cut into `per_batch` equal slices,
// numbered on from batch to batch, and of each `stride` of them the loader makes `count`, from `first` on. By default: whole batches.
struct LoaderSlices {
  int64_t per_batch = 1;
  int64_t stride = 1;
  int64_t first = 0;
  int64_t count = 1;
};

struct LoaderOptions {
  int64_t batch_size = 64;
  Order order = Order::random;
  uint64_t seed = 0;
  LoaderSlices slices = {};
  int64_t prefetch = 4;  // slices made ahead; 0: none, made when asked for
};

class Loader {
 public:
  Loader(std::shared_ptr<const Source> source, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Batch next();  // of this loader's slices number position(), which then moves on
  int64_t position() const { return position_; }
  void seek(int64_t position);

  // Where the rows of this loader's slice number `position` start.
  std::vector<int64_t> starts(int64_t position) const;

 private:
  class Ahead;
  std::shared_ptr<const Source> source_;
  LoaderOptions options_;
  int64_t position_ = 0;
  std::unique_ptr<Ahead> ahead_;
};

// whole  every target once: examples at 0, stride, 2·stride …, and what is left over at the end
// paper  examples at 0, 1, 2 …, `iterations` batches of them
enum class Protocol { whole, paper };
const char* word(Protocol protocol);

struct EvaluationOptions {
  Protocol protocol = Protocol::whole;
  int64_t batch_size = 64;
  int64_t iterations = 20;  // paper only
  int64_t targets = 0;      // whole only: the first so many, in whole examples; 0: all
};

// The batches of an evaluation, in order. The last ones may be smaller: weigh by the number of targets.
class Evaluation {
 public:
  Evaluation(std::shared_ptr<const Source> source, const EvaluationOptions& options);
  int64_t size() const { return batches_; }
  Batch operator[](int64_t index) const;

 private:
  std::shared_ptr<const Source> source_;
  EvaluationOptions options_;
  int64_t examples_ = 0;
  int64_t batches_ = 0;
};

}  // namespace bridle
