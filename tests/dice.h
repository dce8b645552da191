// Random numbers of one test network, a function of its number.
#pragma once

#include <cmath>
#include <initializer_list>

#include "bridle/param.h"
#include "bridle/random.h"

namespace bridle::test {

// Numbers for one network, each asked for by what it is for.
class Dice {
 public:
  explicit Dice(int number) : seed_(static_cast<uint64_t>(number)) {}
  double between(double low, double high) {
    return low + (high - low) * random_uniform({1}, key(), at::kDouble).item<double>();
  }
  double between_logs(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }
  int64_t below(int64_t limit) {
    return random_integers({1}, static_cast<uint64_t>(limit), key()).item<int64_t>();
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }
  uint64_t seed() { return 1000003 * seed_ + ++step_; }

 private:
  RandomKey key() { return {.seed = seed_, .stream = Stream::test, .step = ++step_}; }
  uint64_t seed_;
  uint64_t step_ = 0;
};

// A matrix of a random orientation, in units of RMS norms: every singular value 1, or decaying ones with a large first (trained).
at::Tensor random_weight(const Param& param, bool trained, Dice& dice);

}  // namespace bridle::test
