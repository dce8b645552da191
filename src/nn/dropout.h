// Dropout with counter-based random numbers: the same pass gives the same mask, after any resume.
#pragma once

#include "bridle/nn.h"

namespace bridle {

at::Tensor dropout(const at::Tensor& x, double share, Pass& pass);

}  // namespace bridle
