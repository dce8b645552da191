// The yardstick of a step: FLOP a second of matrix products that stay in each core's L2 cache, one single-thread task a
// core, on all of LibTorch's threads at once. Machines have fast and slow phases, so it is measured between the steps.
#pragma once

#include <memory>
#include <vector>

namespace bridle {

class PeakFlops {
 public:
  PeakFlops();
  ~PeakFlops();
  PeakFlops(const PeakFlops&) = delete;
  PeakFlops& operator=(const PeakFlops&) = delete;

  // Each takes about 30 ms.
  double bfloat16() const;  // [256, 1024]·[1024, 256] from packed tiles on AMX; elsewhere LibTorch's product
  double float32() const;   // [256, 256]·[256, 256], LibTorch's

 private:
  struct Core;  // what one thread multiplies
  std::vector<std::unique_ptr<Core>> cores_;
};

}  // namespace bridle
