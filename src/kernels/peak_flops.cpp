#include "kernels/peak_flops.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <omp.h>

#include <chrono>
#include <random>

#include "bridle/random.h"
#include "kernels/cpu.h"
#include "kernels/matmul_amx.h"

namespace bridle {
namespace {

constexpr double kSeconds = 0.03;
constexpr int64_t kLines = 256, kDepth = 1024, kSide = 256;
constexpr int64_t kBlocks = kLines / amx::kBlock, kSteps = kDepth / amx::kStep;

struct alignas(64) Tile {
  uint32_t pairs[amx::kPairsPerStep];
};

// A random factor as [blocks][steps] tiles.
std::vector<Tile> packed_factor(amx::Side side, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(kLines * kDepth));
  for (float& value : values) value = normal(generator);
  const amx::Factor factor{.data = values.data(),
                           .element = amx::Element::float32,
                           .along_depth = true,
                           .lines = kLines,
                           .depth = kDepth,
                           .stride = kDepth};
  std::vector<Tile> packed(static_cast<size_t>(kBlocks * kSteps));
  for (int64_t block = 0; block < kBlocks; ++block)
    amx::pack(factor, side, block * amx::kBlock, 0, kSteps,
              packed[static_cast<size_t>(block * kSteps)].pairs);
  return packed;
}

// The sum over the cores of how fast each repeats its task, of so many FLOP. Inside a parallel region the libraries below
// stay on one thread.
template <class Task>
double rate_of(size_t cores, double flop, const Task& task) {
  using Clock = std::chrono::steady_clock;
  double sum = 0.0;
#pragma omp parallel num_threads(static_cast <int>(cores)) reduction(+ : sum)
  {
    const auto core = static_cast<size_t>(omp_get_thread_num());
    task(core);  // brings its operands into the cache
#pragma omp barrier
    const auto start = Clock::now();
    double seconds = 0.0, done = 0.0;
    while (seconds < kSeconds) {
      task(core);
      done += flop;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    }
    sum += done / seconds;
  }
  return sum;
}

}  // namespace

struct PeakFlops::Core {
  explicit Core(unsigned number) {
    const RandomKey key{.seed = number, .stream = Stream::test};
    a = random_normal({kSide, kSide}, key);
    product = at::empty({kSide, kSide});
    if (has_bfloat16_products()) {
      left = packed_factor(amx::Side::left, 2 * number);
      right = packed_factor(amx::Side::right, 2 * number + 1);
      return;
    }
    wide = random_normal({kLines, kDepth}, key).to(at::kBFloat16);
    tall = random_normal({kDepth, kLines}, key).to(at::kBFloat16);
    short_product = at::empty({kLines, kLines}, at::kBFloat16);
  }

  void multiply_tiles() const {
    const amx::TileScope tiles;
    alignas(64) float sums[amx::kSums];
    for (size_t i = 0; i < left.size(); i += kSteps)
      for (size_t j = 0; j < right.size(); j += kSteps)
        amx::multiply(left[i].pairs, right[j].pairs, kSteps, false, sums);
  }

  std::vector<Tile> left, right;
  at::Tensor wide, tall, short_product;
  at::Tensor a, product;
};

PeakFlops::PeakFlops() {
  for (int i = 0; i < at::get_num_threads(); ++i)
    cores_.push_back(std::make_unique<Core>(static_cast<unsigned>(i)));
}

PeakFlops::~PeakFlops() = default;

double PeakFlops::bfloat16() const {
  const double flop = 2.0 * kLines * kDepth * kLines;
  if (has_bfloat16_products())
    return rate_of(cores_.size(), flop, [this](size_t core) { cores_[core]->multiply_tiles(); });
  return rate_of(cores_.size(), flop, [this](size_t core) {
    at::mm_out(cores_[core]->short_product, cores_[core]->wide, cores_[core]->tall);
  });
}

double PeakFlops::float32() const {
  return rate_of(cores_.size(), 2.0 * kSide * kSide * kSide, [this](size_t core) {
    at::mm_out(cores_[core]->product, cores_[core]->a, cores_[core]->a);
  });
}

}  // namespace bridle
