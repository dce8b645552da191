// Singular values capped on the smaller side alone: with G = WᵀW/β² and E the positive part of G − I,
//   cap(W) = W·(I + E)^(−1/2),
// a sign of an n×n matrix and a short series. Two products have the long side in them, where the form of clip_by_sign.h has
// about twenty; it is for weights that a step takes a little above the cap, as training does.
#pragma once

#include <optional>

#include "bridle/linalg.h"

namespace bridle {

// For matrices of spectral norm at most `reach`, in their own precision. None where they turn out to be so far above the cap that
// the series would not converge: the caller's `reach` was not true.
std::optional<Tensor> cap_by_gram(const Tensor& matrix, double cap, double reach);

// How far above `cap` the largest singular value can be afterwards, in exact arithmetic, for a matrix of spectral norm at most
// `reach` and smaller side n: docs/theory/constraints.md, statement 2. None where the series is not meant for so large a reach.
std::optional<double> cap_by_gram_excess(double reach, double cap, int64_t n);

}  // namespace bridle
