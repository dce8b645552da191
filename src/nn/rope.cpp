#include "nn/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

namespace bridle {

at::Tensor Rope::forward(const at::Tensor& x, int64_t first_position) const {
  const at::TensorOptions wide = x.options().dtype(at::kDouble).requires_grad(false);
  const int64_t half = head_size_ / 2;
  const at::Tensor frequencies =
      at::pow(theta_, at::arange(half, wide).mul(-2.0 / static_cast<double>(head_size_)));
  const at::Tensor angles =
      at::outer(at::arange(first_position, first_position + x.size(2), wide), frequencies);  // [T, h/2]
  const at::Tensor cosine = angles.cos().to(x.scalar_type());
  const at::Tensor sine = angles.sin().to(x.scalar_type());
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  return at::cat({first.mul(cosine).sub(second.mul(sine)), second.mul(cosine).add(first.mul(sine))}, -1);
}

}  // namespace bridle
