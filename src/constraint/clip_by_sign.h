// Singular values clipped by products alone: with O = sign(W) and S_t = sign(tI − OWᵀ), W + ½(I − S_β)(βO −
// W) takes what is above β down to it, and adding ½(I + S_α)(αO − W) takes what is below α up.
#pragma once

#include <optional>

#include "bridle/linalg.h"

namespace bridle {

// Products run in the matrix's own precision or in the one given; what is not moved keeps the matrix's digits.
Tensor cap_by_sign(const Tensor& matrix, double cap, std::optional<at::ScalarType> products = std::nullopt);
Tensor clip_by_sign(const Tensor& matrix, double floor, double cap,
                    std::optional<at::ScalarType> products = std::nullopt);

// How far above `cap` the largest singular value can be afterwards, in exact arithmetic, for a matrix of
// spectral norm at most `norm` and smaller side n: docs/theory/constraints.md, statement 2. None where the
// signs are not converged.
std::optional<double> cap_by_sign_excess(double norm, double cap, int64_t n);

}  // namespace bridle
