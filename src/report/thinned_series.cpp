#include "report/thinned_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bridle {
namespace {

SeriesPoint merged(const SeriesPoint& a, const SeriesPoint& b) {
  SeriesPoint both = a.finite > 0 ? a : b;
  if (a.finite > 0 && b.finite > 0) {
    const double share = static_cast<double>(b.finite) / static_cast<double>(a.finite + b.finite);
    both.mean = std::lerp(a.mean, b.mean, share);
    both.low = std::min(a.low, b.low);
    both.high = std::max(a.high, b.high);
  }
  both.step = b.step;
  both.lines = a.lines + b.lines;
  both.finite = a.finite + b.finite;
  return both;
}

SeriesPoint point_of(int64_t step, double value) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(value)) return {step, none, none, none, 1, 0};
  return {step, value, value, value, 1, 1};
}

}  // namespace

ThinnedSeries::ThinnedSeries(size_t most_points) : most_(std::max<size_t>(2, most_points / 2 * 2)) {}

void ThinnedSeries::add(int64_t step, double value) {
  const bool open = !points_.empty() && points_.back().lines < width_;
  if (open) {
    points_.back() = merged(points_.back(), point_of(step, value));
    return;
  }
  if (points_.size() == most_) halve();
  points_.push_back(point_of(step, value));
}

void ThinnedSeries::halve() {
  for (size_t i = 0; i < most_ / 2; ++i) points_[i] = merged(points_[2 * i], points_[2 * i + 1]);
  points_.resize(most_ / 2);
  width_ *= 2;
}

}  // namespace bridle
