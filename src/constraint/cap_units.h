// Polynomials stated for a cap of 1, applied to a weight whose cap is another number.
#pragma once

#include <optional>
#include <span>

#include "bridle/linalg.h"

namespace bridle {

// cap·p(W/cap) for the polynomials one after the other.
Tensor apply_in_units_of(double cap, const Tensor& weight, std::span<const OddPolynomial> polynomials,
                         std::optional<at::ScalarType> products);

}  // namespace bridle
