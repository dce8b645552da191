#include "report/sparkline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bridle {
namespace {

constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// The mean of the points that fall into each column; NaN where none is finite.
std::vector<double> columns_of(const std::vector<SeriesPoint>& points, size_t width) {
  const size_t columns = std::min(width, points.size());
  std::vector<double> means(columns);
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0.0, count = 0.0;
    for (size_t i = column * points.size() / columns; i < (column + 1) * points.size() / columns; ++i) {
      if (points[i].finite == 0) continue;
      sum += points[i].mean;
      count += 1.0;
    }
    means[column] = count > 0.0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  }
  return means;
}

}  // namespace

std::string sparkline(const std::vector<SeriesPoint>& points, size_t width) {
  const std::vector<double> columns = columns_of(points, width);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : columns) {
    if (std::isnan(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string line;
  for (const double value : columns) {
    const double height = high > low ? 7.0 * (value - low) / (high - low) : 0.0;
    line += std::isnan(value) ? " " : kHeights[std::lround(height)];
  }
  return line;
}

}  // namespace bridle
