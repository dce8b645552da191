// The step's kernels for amx.
#include "kernels/step_kernels_body.h"

namespace bridle {

const StepKernels& step_kernels_amx() {
  static const StepKernels kernels = kKernels;
  return kernels;
}

}  // namespace bridle
