// The step's kernels for avx512_bf16.
#include "kernels/step_kernels_body.h"

namespace bridle {

const StepKernels& step_kernels_avx512_bf16() {
  static const StepKernels kernels = kKernels;
  return kernels;
}

}  // namespace bridle
