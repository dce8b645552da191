// See lanczos.h. Without reorthogonalisation: lost orthogonality brings back copies of eigenvalues that are found already
// and does not disturb the largest one.
#include "linalg/lanczos.h"

#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "bridle/random.h"

namespace bridle {

double largest_eigenvalue_estimate(const at::Tensor& symmetric, int64_t max_steps) {
  const int64_t n = symmetric.size(0), steps = std::min(n, max_steps);
  const at::Tensor tridiagonal = at::zeros({steps, steps}, at::kDouble);
  at::Tensor v = random_normal({n}, {.stream = Stream::power_iteration}, at::kDouble).to(symmetric.device());
  v.div_(v.norm());
  at::Tensor previous;
  double beta = 0.0, largest_seen = 0.0;
  int64_t used = 0;
  while (true) {
    at::Tensor w = at::mv(symmetric, v);
    const double alpha = w.dot(v).item<double>();
    tridiagonal[used][used] = alpha;
    if (++used == steps) break;
    w.sub_(v, alpha);
    if (previous.defined()) w.sub_(previous, beta);
    beta = w.norm().item<double>();
    largest_seen = std::max({largest_seen, alpha, beta});
    if (beta <= 1e-13 * largest_seen) break;  // an invariant subspace: nothing more to find
    tridiagonal[used][used - 1] = beta;
    previous = v;
    v = w.div_(beta);
  }
  const at::Tensor projected = tridiagonal.narrow(0, 0, used).narrow(1, 0, used);
  return at::linalg_eigvalsh(projected, "L").max().item<double>();
}

}  // namespace bridle
