// A series in one line of text: eight heights, the lowest value the lowest. What is missing is a space.
#pragma once

#include <string>
#include <vector>

#include "report/thinned_series.h"

namespace bridle {

// At most `width` characters; a longer series is joined to means, a shorter one is as long as it is.
std::string sparkline(const std::vector<SeriesPoint>& points, size_t width);

}  // namespace bridle
