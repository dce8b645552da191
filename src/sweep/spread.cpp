// See spread.h. The points are the cells that Roberts' R-sequence visits: in d dimensions it steps by the powers of 1/φ, where
// φ^(d + 1) = φ + 1, and fills the cube evenly from its beginning.
#include "sweep/spread.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

namespace bridle {

std::vector<std::vector<int64_t>> spread_points(const std::vector<int64_t>& sizes, int64_t take) {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  const int64_t wanted = take <= 0 || take > all ? all : take;
  double root = 2.0;
  for (int i = 0; i < 100; ++i) root = std::pow(1.0 + root, 1.0 / (static_cast<double>(sizes.size()) + 1.0));
  std::vector<std::vector<int64_t>> points;
  std::set<std::vector<int64_t>> seen;
  const auto add = [&](const std::vector<int64_t>& point) {
    if (seen.insert(point).second) points.push_back(point);
  };
  const int64_t most = 64 * all;  // after which the cells that were never met follow in their order
  for (int64_t i = 0; i < most && static_cast<int64_t>(points.size()) < wanted; ++i) {
    std::vector<int64_t> point;
    double step = 1.0;
    for (const int64_t size : sizes) {
      step /= root;
      const double place = 0.5 + static_cast<double>(i) * step;
      point.push_back(static_cast<int64_t>((place - std::floor(place)) * static_cast<double>(size)));
    }
    add(point);
  }
  for (int64_t i = 0; i < all && static_cast<int64_t>(points.size()) < wanted; ++i) {
    std::vector<int64_t> point;
    int64_t rest = i;
    for (const int64_t size : sizes) {
      point.push_back(rest % size);
      rest /= size;
    }
    add(point);
  }
  return points;
}

}  // namespace bridle
