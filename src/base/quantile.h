// Quantiles of a few measurements, linear between them: 0.5 is the median.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace bridle {

// `values` is not empty, `share` in [0, 1].
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - std::floor(place));
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace bridle
