// The step's kernels for avx512.
#include "kernels/step_kernels_body.h"

namespace bridle {

const StepKernels& step_kernels_avx512() {
  static const StepKernels kernels = kKernels;
  return kernels;
}

}  // namespace bridle
