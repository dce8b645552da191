// What a proof of a norm spends its time on, straight from BLAS and LAPACK: half a product, and a factorisation in place. ATen's own
// way to them forms the whole product and copies matrices; measured in benchmarks/README.md.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

// The lower triangle of W·Wᵀ for a wide W, of Wᵀ·W for a tall one, formed in float64 whatever the dtype of W; above the diagonal stand
// zeros.
at::Tensor lower_gram(const at::Tensor& w);

// The lower triangle of M becomes L, M = LLᵀ; above the diagonal, what stood there. False if a pivot was not positive: then M holds
// rubbish. `m` is [n, n] in float64 and contiguous.
bool cholesky_(at::Tensor& m);

// The readable twins, on any device.
at::Tensor lower_gram_plain(const at::Tensor& w);
bool cholesky_plain_(at::Tensor& m);

}  // namespace bridle
