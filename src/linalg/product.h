// Products of matrices [m, k] or batches [b, m, k]. bfloat16 factors are multiplied exactly and summed in
// float32, and the result is rounded once, to the dtype that the caller asks for.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

using at::Tensor;

// a·b in the dtype of a, or in the one given.
Tensor product(const Tensor& a, const Tensor& b);
Tensor product(const Tensor& a, const Tensor& b, at::ScalarType dtype);

// scale·c + factor·a·b in the dtype of c; a and b may be narrower.
Tensor product_plus(const Tensor& c, double scale, const Tensor& a, const Tensor& b, double factor = 1.0);

// The last two dimensions exchanged.
inline Tensor transposed(const Tensor& a) { return a.transpose(-2, -1); }
inline bool is_tall(const Tensor& a) { return a.size(-2) > a.size(-1); }

// W·Wᵀ for a wide matrix, Wᵀ·W for a tall one: the Gram matrix on the smaller side.
Tensor gram(const Tensor& a, at::ScalarType dtype);
inline Tensor gram(const Tensor& a) { return gram(a, a.scalar_type()); }

// p·w for a wide w, w·p for a tall one: p acts on the side where the Gram matrix stands.
Tensor apply_side(const Tensor& p, const Tensor& w);

// scale·c + factor·(p acting on w)
Tensor apply_side_plus(const Tensor& c, double scale, const Tensor& p, const Tensor& w, double factor = 1.0);

}  // namespace bridle
