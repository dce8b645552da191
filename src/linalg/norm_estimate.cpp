// Power iteration on WᵀW. An estimate from below: for a proof use spectral_norm_bound.
#include <ATen/ops/where.h>

#include <array>

#include "bridle/linalg.h"
#include "bridle/random.h"
#include "kernels/power_rounds.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

// The kept vectors where they fit; fixed random ones where there are none yet, or where the weight was zero.
Tensor start_vectors(const Tensor& w, const PowerState& state) {
  const std::array<int64_t, 2> shape = {w.size(0), w.size(2)};
  const bool fits = state.right.defined() && state.right.sizes() == at::IntArrayRef(shape);
  const Tensor kept = fits ? state.right.to(w.options()) : Tensor();
  const Tensor lost = fits ? kept.abs().amax(-1, true).eq(0) : Tensor();
  if (fits && !lost.any().item<bool>()) return kept;
  const Tensor row = random_normal({w.size(2)}, {.stream = Stream::power_iteration}, w.scalar_type());
  const Tensor fresh = row.to(w.device()).expand(shape);
  return fits ? at::where(lost, fresh, kept) : fresh;
}

}  // namespace

TopSingular top_singular_estimate(const Tensor& matrix, PowerState& state, int rounds) {
  require_matrix(matrix, "top_singular_estimate");
  const Tensor batch = matrix.dim() == 2 ? matrix.unsqueeze(0) : matrix;
  const Tensor w = batch.to(matrix.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const PowerRounds result = power_rounds(w, start_vectors(w, state), rounds);
  state.right = result.right;
  return {.sigma = result.sigma, .left = result.left, .right = result.right};
}

Tensor spectral_norm_estimate(const Tensor& matrix, int rounds) {
  PowerState state;
  const Tensor sigma = top_singular_estimate(matrix, state, rounds).sigma;
  return matrix.dim() == 2 ? sigma.squeeze(0) : sigma;
}

}  // namespace bridle
