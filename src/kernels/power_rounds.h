// Rounds of power iteration on WᵀW, each in one pass over W: a row's product with v and its share of Wᵀ(Wv)
// are taken while the row is in the cache. Memory is what such rounds cost, so one pass instead of two is
// twice as fast.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

struct PowerRounds {
  at::Tensor sigma;  // [b]: ‖Wv‖
  at::Tensor left;   // [b, m]: Wv/‖Wv‖, or zero
  at::Tensor right;  // [b, n]: v, of norm 1, or zero where WᵀW took it to zero
};

// v ← WᵀWv normalised, rounds − 1 times, then u = Wv. `matrices` [b, m, n] and `start` [b, n] are float32 or
// float64; start must not be zero. W is divided by a power of two on the way, so entries from the smallest denormal to 1e35 do. Same bits
// on any number of threads.
PowerRounds power_rounds(const at::Tensor& matrices, const at::Tensor& start, int rounds);

// The readable twin, on any device.
PowerRounds power_rounds_plain(const at::Tensor& matrices, const at::Tensor& start, int rounds);

}  // namespace bridle
