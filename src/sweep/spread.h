// Points of a grid in an order whose every beginning is spread evenly over it.
#pragma once

#include <cstdint>
#include <vector>

namespace bridle {

// `take` indices for each axis of so many values; all of the grid where `take` is 0 or more than there are. More taken begins with
// the same ones.
std::vector<std::vector<int64_t>> spread_points(const std::vector<int64_t>& sizes, int64_t take);

}  // namespace bridle
