// Counter-based random numbers (Philox 4×32-10): every number is a function of (seed, stream, step, index),
// so the same key gives the same tensor on any number of threads and after any resume.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bridle {

// What the numbers are for; two streams never share a number.
enum class Stream : uint16_t {
  initial_weights,
  data_order,
  dropout,
  power_iteration,
  search,
  labels,
  sampling,
  test,
  token_noise,
  attack,
  augmentation
};

struct RandomKey {
  uint64_t seed = 0;
  Stream stream = Stream::test;
  uint64_t step = 0;
};

// In (0, 1); rounding to float32 or bfloat16 may give 1 itself.
at::Tensor random_uniform(at::IntArrayRef shape, const RandomKey& key, at::ScalarType dtype = at::kFloat);
at::Tensor random_normal(at::IntArrayRef shape, const RandomKey& key, at::ScalarType dtype = at::kFloat);

// Integers in [0, limit), each equally likely up to 2^-64·limit.
at::Tensor random_integers(at::IntArrayRef shape, uint64_t limit, const RandomKey& key);

}  // namespace bridle
