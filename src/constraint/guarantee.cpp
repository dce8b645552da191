// See guarantee.h.
#include "constraint/guarantee.h"

#include <cmath>

namespace bridle {

std::optional<double> invariant_norm(double start, const std::function<double(double)>& after_step) {
  const auto holds = [&](double s) { return after_step(s) <= s; };
  if (holds(start)) return start;
  double low = start, high = start;
  while (!holds(high)) {
    low = high;
    high *= 1.02;  // small, because a method may hold in a window only (a polynomial up to its peak)
    if (!(high <= 1e6 * start)) return std::nullopt;
  }
  for (int i = 0; i < 200 && std::nextafter(low, high) < high; ++i) {
    const double middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace bridle
