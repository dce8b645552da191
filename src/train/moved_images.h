// Images as a little luck would have them: mirrored, and moved by a few pixels. The same things at other places, so that less is
// learned by heart.
#pragma once

#include "bridle/random.h"

namespace bridle {

// [B, 3·side·side], each image mirrored left to right with the probability ½ where `mirror` says so, and moved by up to `shift`
// pixels in both directions; what comes in repeats the border.
at::Tensor moved_images(const at::Tensor& images, bool mirror, int64_t shift, const RandomKey& key);

}  // namespace bridle
