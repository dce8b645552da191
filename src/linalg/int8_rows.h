// A matrix as 8-bit integers with a scale per row, W ≈ diag(scales)·integers. Scales have 16 significant bits, so that scale·integer
// has at most 23 and is exactly a float32: the product is what the integers stand for, and not near it.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

struct Int8Rows {
  at::Tensor integers;  // int8, [rows, columns], from −127 to 127
  at::Tensor scales;    // float32, [rows]; 0 for a row of zeros, or of entries below 2⁻⁹⁰

  at::Tensor values() const;        // float32, exactly the products
  void scale_down_(double factor);  // every scale times this or a little less; factor in (0, 1]
};

// The integers nearest to the entries over the row's scale, which is its largest entry over 127, rounded up. Values must be finite.
Int8Rows int8_rows(const at::Tensor& weight);

}  // namespace bridle
