// Functions of singular values by decomposition in float64: exact to rounding, slow, the yardstick of the
// tests.
#include <ATen/ops/linalg_svd.h>
#include <c10/util/Exception.h>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "linalg/product.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

using Svd = std::tuple<Tensor, Tensor, Tensor>;  // U [m, r], Σ [r], Vᵀ [r, n]

// LAPACK's divide and conquer can fail to converge; the transposed matrix is another problem to it.
Svd decompose(const Tensor& matrix) {
  try {
    return at::linalg_svd(matrix, false);
  } catch (const c10::Error&) {
  }
  try {
    auto [u, s, vt] = at::linalg_svd(transposed(matrix), false);
    return {transposed(vt), s, transposed(u)};
  } catch (const c10::Error&) {
    throw NumericError("svd", "the decomposition did not converge");
  }
}

}  // namespace

Tensor clip_by_svd(const Tensor& matrix, double floor, double cap) {
  require_matrix(matrix, "clip_by_svd");
  require_finite(matrix, "clip_by_svd");
  const auto [u, s, vt] = decompose(matrix.to(at::kDouble));
  return product(u.mul(s.clamp(floor, cap).unsqueeze(-2)), vt).to(matrix.scalar_type());
}

Tensor cap_by_svd(const Tensor& matrix, double cap) { return clip_by_svd(matrix, 0.0, cap); }

}  // namespace bridle
