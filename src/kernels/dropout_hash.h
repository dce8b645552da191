// Which entries dropout keeps: a function of a 64-bit key, a row and a column, so that a kernel and its plain twin drop the same
// ones, in any order and on any number of threads. Not cryptographic; each 32-bit mixing is a bijection with low bias.
#pragma once

#include <cmath>
#include <cstdint>

namespace bridle {

// Entries whose hash is below this are dropped.
inline uint32_t dropout_threshold(double share) {
  return static_cast<uint32_t>(
      std::lround(share * 4294967296.0 > 4294967295.0 ? 4294967295.0 : share * 4294967296.0));
}

// SplitMix64's finaliser.
[[gnu::always_inline]] inline uint64_t dropout_mix(uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

[[gnu::always_inline]] inline uint32_t dropout_row(uint64_t key, uint64_t row) {
  return static_cast<uint32_t>(dropout_mix(key + 0x9e3779b97f4a7c15ULL * (row + 1)) >> 32U);
}

// Works on uint32_t and on vectors of it.
template <class Words>
[[gnu::always_inline]] inline Words dropout_hash(uint32_t row, Words column) {
  Words x = column * 0x9e3779b9U + row;
  x = (x ^ (x >> 16U)) * 0x7feb352dU;
  x = (x ^ (x >> 15U)) * 0x846ca68bU;
  return x ^ (x >> 16U);
}

}  // namespace bridle
