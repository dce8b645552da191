// See lanczos.h. Without reorthogonalisation: lost orthogonality brings back copies of eigenvalues that are
// found already and does not disturb the largest one.
#include "linalg/lanczos.h"

#include <ATen/ops/mv.h>

#include <algorithm>
#include <vector>

#include "bridle/random.h"

namespace bridle {
namespace {

struct Tridiagonal {
  std::vector<double> diagonal, below;

  // True if every eigenvalue of the leading part is below x: the pivots of T − xI are all negative.
  bool is_below(double x, size_t size) const {
    double pivot = diagonal[0] - x;
    for (size_t i = 1; i < size && pivot < 0.0; ++i)
      pivot = diagonal[i] - x - below[i - 1] * below[i - 1] / pivot;
    return pivot < 0.0;
  }

  // By bisection, from the largest diagonal entry to Gershgorin's bound.
  double largest_eigenvalue(size_t size, double precision = 1e-15) const {
    double low = diagonal[0], high = diagonal[0];
    for (size_t i = 0; i < size; ++i) {
      low = std::max(low, diagonal[i]);
      high = std::max(high, diagonal[i] + (i > 0 ? below[i - 1] : 0.0) + (i + 1 < size ? below[i] : 0.0));
    }
    for (int i = 0; i < 80 && high - low > precision * high; ++i) {
      const double middle = low + (high - low) / 2;
      (is_below(middle, size) ? high : low) = middle;
    }
    return low;
  }

  EigenvalueEstimate estimate(double precision) const {
    const size_t size = diagonal.size();
    const double value = largest_eigenvalue(size, precision),
                 before = largest_eigenvalue(std::max<size_t>(1, 3 * size / 4), precision);
    return {value, value > 0.0 ? (value - before) / value : 0.0, static_cast<int64_t>(size)};
  }
};

}  // namespace

EigenvalueEstimate largest_eigenvalue_estimate(const at::Tensor& symmetric, double wanted_uncertainty,
                                               int64_t max_steps) {
  constexpr size_t check_every = 8;
  const int64_t n = symmetric.size(0);
  const auto steps = static_cast<size_t>(std::min(n, max_steps));
  at::Tensor v = random_normal({n}, {.stream = Stream::power_iteration}, at::kDouble).to(symmetric.device());
  v.div_(v.norm());
  at::Tensor previous;
  Tridiagonal t;
  double largest_seen = 0.0;
  while (true) {
    at::Tensor w = at::mv(symmetric, v);
    const double alpha = w.dot(v).item<double>();
    t.diagonal.push_back(alpha);
    const size_t used = t.diagonal.size();
    if (used == static_cast<size_t>(n)) return {t.largest_eigenvalue(used), 0.0, static_cast<int64_t>(used)};
    if (used == steps || used % check_every == 0) {
      const EigenvalueEstimate estimate = t.estimate(std::max(1e-15, 1e-3 * wanted_uncertainty));
      if (used == steps || estimate.uncertainty <= wanted_uncertainty) return estimate;
    }
    w.sub_(v, alpha);
    if (previous.defined()) w.sub_(previous, t.below.back());
    const double beta = w.norm().item<double>();
    largest_seen = std::max({largest_seen, alpha, beta});
    const bool invariant = beta <= 1e-13 * largest_seen;  // nothing more to find in this subspace
    if (invariant) return {t.largest_eigenvalue(used), 0.0, static_cast<int64_t>(used)};
    t.below.push_back(beta);
    previous = v;
    v = w.div_(beta);
  }
}

}  // namespace bridle
