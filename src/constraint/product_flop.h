// FLOP of the matrix products that polynomials of singular values take, from shapes alone.
#pragma once

#include <span>

#include "bridle/constraint.h"

namespace bridle {

// Blocks [b, m, n] by their short and their long side.
struct BlockSides {
  explicit BlockSides(const Tensor& blocks);
  double wide() const { return 2.0 * count * shorter * shorter * longer; }  // a product with the long side
  double small() const { return 2.0 * count * shorter * shorter * shorter; }
  // The Gram matrix in float64, and a Cholesky factorisation.
  double proof() const { return wide() + small() / 6.0; }

  double count, shorter, longer;
};

// Of apply_polynomials. How many products a list takes depends only on which coefficients are there.
ProductFlop polynomial_flop(const Tensor& blocks, std::span<const OddPolynomial> list,
                            at::ScalarType products);

// Of cap_by_sign (one threshold) and clip_by_sign (two).
ProductFlop sign_flop(const Tensor& blocks, int thresholds, at::ScalarType products);

// Of cap_by_gram, in the weight's own precision; its series counted as four products.
ProductFlop gram_cap_flop(const Tensor& blocks);

}  // namespace bridle
