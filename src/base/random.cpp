// See bridle/random.h. One Philox block gives two 64-bit numbers; LibTorch's own engine is the generator.
#include "bridle/random.h"

#include <ATen/Parallel.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/ops/from_blob.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace bridle {
namespace {

struct Pair {
  uint64_t first;
  uint64_t second;
};

// Key: the seed. Counter: the step (upper half), the stream and the block's index (lower half).
Pair philox_block(const RandomKey& key, uint64_t index) {
  at::Philox4_32 engine(key.seed, key.step, (static_cast<uint64_t>(key.stream) << 48) | index);
  uint64_t words[4];
  for (uint64_t& word : words) word = engine();
  return {(words[0] << 32) | words[1], (words[2] << 32) | words[3]};
}

// In (0, 1), from the upper 52 bits, so that its logarithm is finite.
double to_uniform(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

// Fills [shape] with write(block, a pointer to its two places); the last block may be half used.
template <class T, class Write>
at::Tensor generate(at::IntArrayRef shape, const RandomKey& key, const Write& write) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const int64_t blocks = (count + 1) / 2;
  std::vector<T> values(static_cast<size_t>(2 * blocks));
  at::parallel_for(0, blocks, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      write(philox_block(key, static_cast<uint64_t>(i)), &values[static_cast<size_t>(2 * i)]);
    }
  });
  return at::from_blob(values.data(), shape, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value))
      .clone();
}

}  // namespace

at::Tensor random_uniform(at::IntArrayRef shape, const RandomKey& key, at::ScalarType dtype) {
  const auto write = [](const Pair& bits, double* out) {
    out[0] = to_uniform(bits.first);
    out[1] = to_uniform(bits.second);
  };
  return generate<double>(shape, key, write).to(dtype);
}

at::Tensor random_normal(at::IntArrayRef shape, const RandomKey& key, at::ScalarType dtype) {
  const auto write = [](const Pair& bits, double* out) {  // Box–Muller
    const double radius = std::sqrt(-2.0 * std::log(to_uniform(bits.first)));
    const double angle = 2.0 * std::numbers::pi * to_uniform(bits.second);
    out[0] = radius * std::cos(angle);
    out[1] = radius * std::sin(angle);
  };
  return generate<double>(shape, key, write).to(dtype);
}

at::Tensor random_integers(at::IntArrayRef shape, uint64_t limit, const RandomKey& key) {
  using Wide = unsigned __int128;
  const auto scale = [limit](uint64_t bits) { return static_cast<int64_t>((Wide{bits} * limit) >> 64); };
  return generate<int64_t>(shape, key, [&scale](const Pair& bits, int64_t* out) {
    out[0] = scale(bits.first);
    out[1] = scale(bits.second);
  });
}

}  // namespace bridle
