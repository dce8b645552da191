// Power iteration on WᵀW. An estimate from below: for a proof use spectral_norm_bound.
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/where.h>

#include "bridle/linalg.h"
#include "bridle/random.h"
#include "linalg/product.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

Tensor unit_vectors(const Tensor& x) {  // [b, n, 1]; zero stays zero
  const Tensor norm = at::linalg_vector_norm(x, 2, at::IntArrayRef{-2}, true);
  return x.div(norm.masked_fill(norm.eq(0), 1.0));
}

// The kept vectors where they fit; fixed random ones where there are none yet, or where the weight was zero.
Tensor start_vectors(const Tensor& w, const PowerState& state) {
  const Tensor row = random_normal({w.size(-1)}, {.stream = Stream::power_iteration}, w.scalar_type());
  const Tensor fresh = row.to(w.device()).expand({w.size(0), w.size(-1)});
  const bool fits = state.right.defined() && state.right.sizes() == fresh.sizes();
  if (!fits) return fresh.unsqueeze(-1);
  const Tensor kept = state.right.to(w.scalar_type());
  return at::where(kept.abs().amax(-1, true).eq(0), fresh, kept).unsqueeze(-1);
}

}  // namespace

TopSingular top_singular_estimate(const Tensor& matrix, PowerState& state, int rounds) {
  require_matrix(matrix, "top_singular_estimate");
  const Tensor batch = matrix.dim() == 2 ? matrix.unsqueeze(0) : matrix;
  const Tensor w = batch.to(matrix.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  // Dividing the vectors by the scale keeps W·v near 1 for weights of any size, without a scaled copy of W.
  const Tensor scale = power_of_two_scale(w).to(w.scalar_type());
  Tensor v = unit_vectors(start_vectors(w, state));
  Tensor u = unit_vectors(product(w, v.div(scale)));
  for (int round = 1; round < rounds; ++round) {
    v = unit_vectors(product(transposed(w), u.div(scale)));
    u = unit_vectors(product(w, v.div(scale)));
  }
  const Tensor sigma = product(transposed(u), product(w, v.div(scale))).mul(scale).squeeze(-1).squeeze(-1);
  state.right = v.squeeze(-1);
  return {.sigma = sigma, .left = u.squeeze(-1), .right = state.right};
}

Tensor spectral_norm_estimate(const Tensor& matrix, int rounds) {
  PowerState state;
  const Tensor sigma = top_singular_estimate(matrix, state, rounds).sigma;
  return matrix.dim() == 2 ? sigma.squeeze(0) : sigma;
}

}  // namespace bridle
