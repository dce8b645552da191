// All kernels of the step, compiled once for each instruction set and type of values by the files that include this one.
#pragma once

#include "kernels/step_attention_body.h"
#include "kernels/step_linear_body.h"
#include "kernels/step_loss_body.h"
#include "kernels/step_mix_body.h"
#include "kernels/step_rows_body.h"

namespace bridle {
namespace {

constexpr StepKernels kKernels = {kElement,
                                  pack_lines,
                                  narrow,
                                  linear,
                                  rope,
                                  attend,
                                  attend_backward,
                                  add_gradient,
                                  cross_entropy,
                                  norm,
                                  norm_backward,
                                  add_columns,
                                  drop,
                                  head_norm,
                                  head_norm_backward,
                                  mix,
                                  mix_backward,
                                  decaying_max,
                                  decaying_max_backward};

}  // namespace
}  // namespace bridle
