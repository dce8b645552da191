// The step's kernels for plain.
#include "kernels/step_kernels_body.h"

namespace bridle {

const StepKernels& step_kernels_plain() {
  static const StepKernels kernels = kKernels;
  return kernels;
}

}  // namespace bridle
