// Inputs from which the search for the largest stretch begins. Random ones are far from what stretches a transformer most:
// tokens on the ball's surface that one head tells apart, or that different heads read, or where the feed-forward layers
// are steepest. These are built from the leading singular vectors of the weights.
#pragma once

#include "bridle/certify.h"

namespace bridle {

// [starts, T, d] or [starts, D] in float64, every token's RMS at most `domain`. Start 0 is structured where there is one
// to be had; the kinds take turns.
at::Tensor search_starts(const Model& model, const SearchOptions& options);

}  // namespace bridle
