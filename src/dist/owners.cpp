// See owners.h.
#include "dist/owners.h"

#include <algorithm>
#include <numeric>

namespace bridle {

std::vector<int64_t> owners_by_cost(std::span<const double> costs, int64_t ranks) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<double> loads(static_cast<size_t>(ranks));
  std::vector<int64_t> owners(costs.size());
  for (const size_t weight : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += costs[weight];
    owners[weight] = least - loads.begin();
  }
  return owners;
}

}  // namespace bridle
