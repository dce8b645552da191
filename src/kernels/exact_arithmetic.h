// While one of these lives, this thread and LibTorch's worker threads round to nearest and keep denormals: what every bound
// is stated for. Training kernels and other libraries may have set a processor to flush denormals to zero, or worse.
#pragma once

#include <vector>

namespace bridle {

class ExactArithmetic {
 public:
  ExactArithmetic();
  ~ExactArithmetic();
  ExactArithmetic(const ExactArithmetic&) = delete;
  ExactArithmetic& operator=(const ExactArithmetic&) = delete;

 private:
  std::vector<unsigned> saved_;  // each thread's control register
};

}  // namespace bridle
