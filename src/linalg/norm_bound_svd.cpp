// SVD with residual: W = USVᵀ + R gives σ(W) ≤ S_max‖U‖‖V‖ + ‖R‖_F with ‖U‖ ≤ √(1 + ‖UᵀU − I‖_F), every
// product's own rounding error added: docs/theory/spectral_norm.md, statement 3.
#include <ATen/ops/linalg_svd.h>
#include <c10/util/Exception.h>

#include <cmath>

#include "linalg/norm_bound.h"
#include "linalg/product.h"

namespace bridle {
namespace {

// ‖U‖ for [m, r] with nearly orthonormal columns.
UpperBound nearly_one_bound(const Tensor& u) {
  const Tensor defect = product(transposed(u), u);
  defect.diagonal().sub_(1.0);
  const UpperBound product_error =
      UpperBound(rounding_error(u.size(0) + 4)) * (sum_of_squares_bound(u) + 1.0);
  return sqrt(1.0 + sqrt(sum_of_squares_bound(defect)) + product_error);
}

}  // namespace

std::optional<UpperBound> norm_by_svd(const Tensor& scaled) {
  Tensor u, s, vt;
  try {
    std::tie(u, s, vt) = at::linalg_svd(scaled, false);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  const double largest = s.max().item<double>();
  if (!std::isfinite(largest) || !u.isfinite().all().item<bool>() || !vt.isfinite().all().item<bool>()) {
    return std::nullopt;
  }
  const Tensor residual = scaled.sub(product(u.mul(s), vt));
  // |fl(USVᵀ) − USVᵀ| ≤ γ|U|S|Vᵀ| entry by entry, so its Frobenius norm is at most γ‖U‖_F·S_max·‖V‖_F.
  const UpperBound reconstruction_size = sqrt(sum_of_squares_bound(u) * sum_of_squares_bound(vt)) * largest;
  const UpperBound error =
      UpperBound(rounding_error(s.numel() + 4)) * (reconstruction_size + sqrt(sum_of_squares_bound(scaled)));
  return UpperBound(largest) * nearly_one_bound(u) * nearly_one_bound(transposed(vt)) +
         sqrt(sum_of_squares_bound(residual)) + error;
}

}  // namespace bridle
