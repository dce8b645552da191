// See cap_by_gram.h.
#include "constraint/cap_by_gram.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "linalg/product.h"

namespace bridle {
namespace {

constexpr double kLargestSquare = 1.5;  // of reach/cap: E stays below ½, where the series converges quickly

double square(double x) { return x * x; }

// Coefficients of (1 + E)^(−1/2), up to a negative one after which terms are below 10⁻⁹. For E ≥ 0 the terms alternate and fall, so
// that such a sum is at most the function.
std::vector<double> inverse_root_series(double largest) {
  std::vector<double> series{1.0};
  double size = 1.0;
  while (size > 1e-9 || series.size() % 2 == 1) {
    const auto k = static_cast<double>(series.size());
    series.push_back(series.back() * -(2.0 * k - 1.0) / (2.0 * k));
    size *= largest;
  }
  return series;
}

void add_identity_(const Tensor& matrix, double factor) { matrix.diagonal(0, -2, -1).add_(factor); }

// (G − I)₊ = ½(A + A·sign(A)) with A = G − I. The sign commutes with A up to rounding.
Tensor positive_part(const Tensor& a) { return product_plus(a, 0.5, a, matrix_sign(a), 0.5); }

// Of positive semidefinite matrices, from below: a few rounds of power iteration from a vector that no weight has reason to resemble.
double largest_eigenvalue_estimate(const Tensor& e) {
  constexpr int kRounds = 8;
  Tensor v = at::arange(1, e.size(-1) + 1, e.options()).square_().sin_().unsqueeze(-1);
  double estimate = 0.0;
  for (int i = 0; i < kRounds; ++i) {
    v = at::matmul(e, v);
    const Tensor length = v.norm(2, {-2}, true);
    v = v.div(length.clamp_min(1e-30));
    estimate = at::matmul(e, v).norm(2, {-2}).max().item<double>();
  }
  return estimate;
}

}  // namespace

std::optional<Tensor> cap_by_gram(const Tensor& matrix, double cap, double reach) {
  const Tensor a = gram(matrix).div_(cap * cap);
  add_identity_(a, -1.0);
  const Tensor excess = positive_part(a);
  const double stated = std::max(square(reach / cap) - 1.0, 0.0);
  const double largest = std::max(stated, 1.3 * largest_eigenvalue_estimate(excess));
  if (!(largest <= 1.3 * (kLargestSquare - 1.0))) return std::nullopt;
  const std::vector<double> series = inverse_root_series(largest);
  Tensor root =
      excess.mul(series.back());  // Horner, without the identity: what is not moved keeps its digits
  for (size_t k = series.size() - 2; k > 0; --k) {
    add_identity_(root, series[k]);
    root = product(root, excess);
  }
  return apply_side_plus(matrix, 1.0, root, matrix);
}

std::optional<double> cap_by_gram_excess(double reach, double cap, int64_t n) {
  constexpr double unconverged = 3.5e-5;  // sup of x(1 − s(x))/2 on [0, 1], s the polynomial of matrix_sign
  const double largest = square(reach / cap);
  if (!(largest <= kLargestSquare)) return std::nullopt;
  return 0.5 * cap * unconverged * std::sqrt(static_cast<double>(n)) * std::max(1.0, largest - 1.0);
}

}  // namespace bridle
