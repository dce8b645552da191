// Directions for the black-box search.
#pragma once

#include "bridle/random.h"

namespace bridle {

// Unit vectors: for each image a cosine wave over the picture, low frequencies more often, in one channel. [count, pixels];
// three square channels, one square, or one row.
at::Tensor cosine_waves(int64_t count, int64_t pixels, const RandomKey& key);

}  // namespace bridle
