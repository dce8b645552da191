// How long a training step of a recipe takes, where the time goes, and what share of the machine's peak that is.
#pragma once

#include "train/flop_count.h"
#include "train/train_state.h"

namespace bridle {

struct BenchOptions {
  int64_t steps = 10;  // timed
  int64_t warmup = 3;  // before them
};

struct StepBench {
  RunOptions options;        // resolved
  bool random_data = false;  // the data set is not here
  int64_t parameters = 0;
  int64_t examples = 0;  // tokens or images, a step
  FlopCount flop = {};   // a step
  std::vector<double>
      seconds;           // of each step; proofs, which come every prove_every steps, spread evenly over all
  StepTimes times = {};  // medians; of proofs the share of a step
  double other = 0.0;    // median of what is none of these parts
  std::vector<double> peak_bfloat16;  // FLOP a second, after a step, or after several short ones
  std::vector<double> peak_float32;
};

// Trains from the beginning, in memory. Throws InputError for a recipe that training would refuse, but for a data set
// that is not there: random data of the same shapes takes its place.
StepBench bench_step(const RunOptions& options, const BenchOptions& bench = {});

}  // namespace bridle
