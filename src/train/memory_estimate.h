// The memory that training will take, counted from its shapes before anything is allocated. It leaves out what is small or short
// lived, so that it lies below the peak: it is there to refuse what cannot fit. docs/reference/training.md compares it with what was measured.
#pragma once

#include <cstdint>

#include "bridle/train.h"

namespace bridle {

// Bytes, as doubles: sizes may be absurd.
struct MemoryEstimate {
  double weights = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double packed = 0.0;       // weights and sums of gradients as the fused pass has them
  double activations = 0.0;  // that the backward pass needs, with the logits
  double batches = 0.0;      // made ahead
  double exchange = 0.0;     // messages to and from other ranks

  double total() const { return weights + gradients + optimizer + packed + activations + batches + exchange; }
};

// Of resolved options, for so many threads; of one of so many ranks.
MemoryEstimate memory_estimate(const RunOptions& options, int threads, int64_t ranks = 1);

// Throws InputError, with the figures and what to lower, where the run takes more than these bytes.
void check_memory(const RunOptions& options, int threads, int64_t available);

}  // namespace bridle
