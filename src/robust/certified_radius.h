// How far one vector may be moved before an MLP's answer could change: from the margins of a float64 pass and the bound of the
// stretch up to the head, rounded down.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "bridle/certify.h"
#include "bridle/nn.h"

namespace bridle {

struct CertifiedRadius {
  int64_t predicted = 0;
  double euclidean = 0.0;  // of all entries together; 0: nothing is certified
  double largest = 0.0;    // of any entry: euclidean/√n
};

// `vector`: [n], as the model reads it; `bound` is the model's. Throws InputError for models of tokens, with fewer than two
// outputs, or whose stretch depends on where inputs are (relu_squared).
CertifiedRadius certified_radius(const Model& model, const CertifiedBound& bound, const at::Tensor& vector);

}  // namespace bridle
