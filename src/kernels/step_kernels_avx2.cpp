// The step's kernels for avx2.
#include "kernels/step_kernels_body.h"

namespace bridle {

const StepKernels& step_kernels_avx2() {
  static const StepKernels kernels = kKernels;
  return kernels;
}

}  // namespace bridle
