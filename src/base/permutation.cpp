#include "base/permutation.h"

#include <ATen/TensorAccessor.h>

namespace bridle {
namespace {

// Mixes 64 bits; the constants are those of MurmurHash3's finaliser.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

}  // namespace

Permutation::Permutation(uint64_t size, const RandomKey& key) : size_(size) {
  while ((uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
  const at::Tensor bits = random_integers({kRounds}, uint64_t{1} << 62, key);
  const auto values = bits.accessor<int64_t, 1>();
  for (size_t i = 0; i < kRounds; ++i) keys_.at(i) = static_cast<uint64_t>(values[static_cast<int64_t>(i)]);
}

uint64_t Permutation::operator()(uint64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = index >> half_bits_;
    uint64_t right = index & mask;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix(right + key) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace bridle
