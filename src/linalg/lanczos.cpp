// See lanczos.h. Full reorthogonalisation, twice: a handful of vectors, so it costs little and needs no care.
#include "linalg/lanczos.h"

#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "bridle/random.h"

namespace bridle {

double largest_eigenvalue_estimate(const at::Tensor& symmetric, int64_t max_steps) {
  const int64_t n = symmetric.size(0), steps = std::min(n, max_steps);
  const at::Tensor basis = at::zeros({steps, n}, symmetric.options());
  const at::Tensor tridiagonal = at::zeros({steps, steps}, at::kDouble);
  at::Tensor v = random_normal({n}, {.stream = Stream::power_iteration}, at::kDouble).to(symmetric.device());
  v = v.div(v.norm());
  double largest_seen = 0.0;
  int64_t used = 0;
  while (used < steps) {
    basis[used].copy_(v);
    const at::Tensor known = basis.narrow(0, 0, ++used);
    at::Tensor w = at::mv(symmetric, v);
    const double alpha = w.dot(v).item<double>();
    tridiagonal[used - 1][used - 1] = alpha;
    for (int pass = 0; pass < 2; ++pass) w = w.sub(at::mv(known.t(), at::mv(known, w)));
    const double beta = w.norm().item<double>();
    largest_seen = std::max({largest_seen, alpha, beta});
    if (used == steps || beta <= 1e-13 * largest_seen) break;  // an invariant subspace: nothing more to find
    tridiagonal[used][used - 1] = beta;
    v = w.div(beta);
  }
  const at::Tensor projected = tridiagonal.narrow(0, 0, used).narrow(1, 0, used);
  return at::linalg_eigvalsh(projected, "L").max().item<double>();
}

}  // namespace bridle
