// The step's kernels for float32 on plain.
#define BRIDLE_STEP_FLOAT32
#include "kernels/step_kernels_body.h"

namespace bridle {

const StepKernels& step_kernels_float32_plain() {
  static const StepKernels kernels = kKernels;
  return kernels;
}

}  // namespace bridle
