// Adam: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², the update is m/(√v + ε), after Kingma & Ba (2014); no norm of it is
// known. Its weight decay is decoupled (Loshchilov & Hutter 2017), and that of every optimizer here. Without bias
// correction as in the paper; with it as torch.optim.AdamW.
#pragma once

#include "bridle/optim.h"

namespace bridle {

struct AdamMoments {
  Tensor first;   // m
  Tensor second;  // v
};

// Averages the gradient into the moments in place; returns the update, a new tensor. Reads beta1, beta2, eps and
// bias_correction; `step` counts from 0.
Tensor adam_update_(const AdamMoments& moments, const Tensor& gradient, const OptimizerOptions& options,
                    int64_t step);

}  // namespace bridle
