// Singular values clipped by products alone: with O = sign(W) and S_t = sign(tI − OWᵀ),
// clip(W) = ½[(α + β)O + S_α(αO − W) − S_β(βO − W)]; the cap is the case α = −β, where S_α = −I.
#pragma once

#include <optional>

#include "bridle/linalg.h"

namespace bridle {

Tensor cap_by_sign(const Tensor& matrix, double cap);
Tensor clip_by_sign(const Tensor& matrix, double floor, double cap);

// How far above `cap` the largest singular value can be afterwards, in exact arithmetic, for a matrix of
// spectral norm at most `norm` and smaller side n: docs/theory/constraints.md, statement 2. None where the
// signs are not converged.
std::optional<double> cap_by_sign_excess(double norm, double cap, int64_t n);

}  // namespace bridle
