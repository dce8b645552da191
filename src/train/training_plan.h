// What training with several ranks will take, from the recipe's shapes alone: arithmetic and bytes of each rank, memory, and the time
// at a given speed of processors and network. docs/how-to/many-processes.md.
#pragma once

#include "train/flop_count.h"
#include "train/memory_estimate.h"

namespace bridle {

struct PlanOptions {
  int64_t ranks = 1;
  double flops = 0.0;   // FLOP a second of one rank, as bench step measures it
  double gbit = 0.0;    // a second, of each rank's link, each way
  int64_t threads = 1;  // of one rank
};

// Of the rank that has most of each.
struct TrainingPlan {
  int64_t slices = 1;
  int64_t parameters = 0;
  int64_t examples = 0;         // tokens or images, a step
  double flop = 0.0;            // a step, of all ranks
  double pass_flop = 0.0;       // of a rank: its slices, forward and back
  double owner_flop = 0.0;      // of a rank: steps, constraints and proofs of its weights
  double gradient_bytes = 0.0;  // that go out or come in, whichever is more
  double weight_bytes = 0.0;    // likewise
  MemoryEstimate memory = {};
  double compute_seconds = 0.0;   // a step
  double exchange_seconds = 0.0;  // a step; computing and exchanging take turns
  int64_t steps = 0;

  double step_seconds() const { return compute_seconds + exchange_seconds; }
  double run_seconds() const { return static_cast<double>(steps) * step_seconds(); }
};

// Of resolved options. Throws InputError for options that make no sense.
TrainingPlan plan_training(const RunOptions& options, const PlanOptions& plan);

}  // namespace bridle
