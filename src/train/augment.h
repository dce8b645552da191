// Random flip and shift augmentation of images, drawn anew at every step.
#pragma once

#include "bridle/random.h"

namespace bridle {

// [B, 3·side·side], each image flipped left to right with probability ½ where `mirror` is true, and shifted by up to `shift`
// pixels in both directions; pixels from outside repeat the border.
at::Tensor augment(const at::Tensor& images, bool mirror, int64_t shift, const RandomKey& key);

}  // namespace bridle
