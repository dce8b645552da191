// A random permutation of 0 … size − 1 that is computed, not stored: a Feistel network on the next even power of two,
// walked along its cycle until it lands inside. The same key gives the same permutation.
#pragma once

#include <array>
#include <cstdint>

#include "bridle/random.h"

namespace bridle {

class Permutation {
 public:
  Permutation(uint64_t size, const RandomKey& key);
  uint64_t operator()(uint64_t index) const;

 private:
  static constexpr size_t kRounds = 8;
  uint64_t size_;
  unsigned half_bits_ = 1;
  std::array<uint64_t, kRounds> keys_{};
};

}  // namespace bridle
