// A batch in parts, for threads that work side by side.
#pragma once

#include <vector>

#include "bridle/data.h"

namespace bridle {

// The batch's examples in order, in at most so many parts of nearly the same size, none of them empty; views of its tensors.
std::vector<Batch> batch_parts(const Batch& batch, int64_t count);

}  // namespace bridle
