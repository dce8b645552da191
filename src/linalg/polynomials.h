// What apply_polynomials will multiply: the choice between its two ways, and the yardstick of its benchmark.
#pragma once

#include <span>

#include "bridle/linalg.h"

namespace bridle {

struct ProductCounts {
  bool in_gram_space;
  int wide = 0;   // products in which the long side takes part
  int small = 0;  // products of matrices of the short side; float32 at least in Gram space
};

// For a list that is not empty.
ProductCounts count_products(const Tensor& matrix, std::span<const OddPolynomial> list,
                             at::ScalarType products);

}  // namespace bridle
