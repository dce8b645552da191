// A series of measurements kept in bounded memory, however long it is: when it is full, neighbours become one point with
// their mean, smallest and largest value, and a point stands for twice as many lines from then on.
#pragma once

#include <cstdint>
#include <vector>

namespace bridle {

struct SeriesPoint {
  int64_t step = 0;   // of the last line in it
  double mean = 0.0;  // of those that are finite; NaN where none is
  double low = 0.0;
  double high = 0.0;
  int64_t lines = 0;   // in it
  int64_t finite = 0;  // of these
};

class ThinnedSeries {
 public:
  explicit ThinnedSeries(size_t most_points = 2000);  // at least 2, even

  void add(int64_t step, double value);  // a value that is not finite stands for none
  const std::vector<SeriesPoint>& points() const { return points_; }
  int64_t lines_per_point() const { return width_; }

 private:
  void halve();
  size_t most_;
  int64_t width_ = 1;
  std::vector<SeriesPoint> points_;
};

}  // namespace bridle
