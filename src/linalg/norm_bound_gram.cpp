// Gram iteration with its error recursion: needs nothing but products, so it serves devices without LAPACK.
// ‖G‖² = ‖GᵀG‖ ≤ ‖fl(GᵀG)‖ + γ‖G‖_F², and in the end ‖G‖ ≤ ‖G‖_F: docs/theory/spectral_norm.md, statement 2.
#include <algorithm>
#include <cmath>
#include <vector>

#include "linalg/norm_bound.h"
#include "linalg/product.h"

namespace bridle {
namespace {

constexpr int kIterations = 32;  // the excess of the last step, n^(2^-33), is far below the rounding errors

struct Level {
  UpperBound error;  // ‖fl(MᵀM) − MᵀM‖ is at most this, for this level's M
  int exponent;      // this level's M is 2^exponent times the matrix that was multiplied
};

UpperBound times_power_of_two(const UpperBound& x, int64_t exponent) {
  return UpperBound::scaled(x.mantissa(), x.exponent() + exponent);
}

}  // namespace

std::optional<UpperBound> norm_by_gram_iteration(const Tensor& scaled) {
  Tensor m = scaled;
  std::vector<Level> levels;
  for (int i = 0; i < kIterations; ++i) {
    const double size = m.norm().item<double>();
    if (!std::isfinite(size)) return std::nullopt;
    if (size == 0.0) break;
    int exponent = 0;
    std::frexp(size, &exponent);
    m = m.mul(std::ldexp(1.0, -exponent));
    const int64_t inner = std::max(m.size(0), m.size(1));
    // Squares below 2^-1022 are lost; there are at most `numel` of them in a row of products.
    const UpperBound underflow = UpperBound(static_cast<double>(m.numel())) * UpperBound::scaled(1.0, -1000);
    levels.push_back({UpperBound(rounding_error(inner + 2)) * sum_of_squares_bound(m) + underflow, exponent});
    m = gram(m);
  }
  UpperBound bound = sqrt(sum_of_squares_bound(m));
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    bound = times_power_of_two(sqrt(bound + level->error), level->exponent);
  }
  return bound;
}

}  // namespace bridle
