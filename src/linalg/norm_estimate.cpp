// Power iteration on WᵀW. An estimate from below: for a proof use spectral_norm_bound.
#include <ATen/ops/where.h>

#include <array>

#include "bridle/linalg.h"
#include "bridle/random.h"
#include "kernels/power_rounds.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

// The kept vectors where they fit, else fixed random ones.
Tensor start_vectors(const Tensor& w, const PowerState& state) {
  const std::array<int64_t, 2> shape = {w.size(0), w.size(2)};
  const bool fits = state.right.defined() && state.right.sizes() == at::IntArrayRef(shape);
  if (fits) return state.right.to(w.options());
  const Tensor row = random_normal({w.size(2)}, {.stream = Stream::power_iteration}, w.scalar_type());
  return row.to(w.device()).expand(shape);
}

}  // namespace

TopSingular top_singular_estimate(const Tensor& matrix, PowerState& state, int rounds) {
  require_matrix(matrix, "top_singular_estimate");
  const Tensor batch = matrix.dim() == 2 ? matrix.unsqueeze(0) : matrix;
  const Tensor w = batch.to(matrix.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor start = start_vectors(w, state);
  const PowerRounds result = power_rounds(w, start, rounds);
  // A zero matrix takes every vector to zero, which would never recover: its start is kept instead.
  const Tensor lost = result.sigma.eq(0);
  state.right = lost.any().item<bool>() ? at::where(lost.unsqueeze(-1), start, result.right) : result.right;
  return {.sigma = result.sigma, .left = result.left, .right = result.right};
}

Tensor spectral_norm_estimate(const Tensor& matrix, int rounds) {
  PowerState state;
  const Tensor sigma = top_singular_estimate(matrix, state, rounds).sigma;
  return matrix.dim() == 2 ? sigma.squeeze(0) : sigma;
}

}  // namespace bridle
