#include "nn/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace bridle {

std::vector<double> rope_frequencies(const RopeOptions& options) {
  const int64_t pairs = options.head_size / 2, rotated = options.half_truncated ? pairs / 2 : pairs;
  const int64_t last = options.half_truncated ? std::max(rotated - 1, int64_t{1}) : pairs;
  std::vector<double> frequencies(static_cast<size_t>(pairs));
  for (int64_t i = 0; i < rotated; ++i)
    frequencies[static_cast<size_t>(i)] =
        std::pow(options.theta, -static_cast<double>(i) / static_cast<double>(last));
  return frequencies;
}

at::Tensor Rope::forward(const at::Tensor& x, int64_t first_position) const {
  const at::TensorOptions wide = x.options().dtype(at::kDouble).requires_grad(false);
  const int64_t half = options_.head_size / 2;
  const at::Tensor frequencies = at::tensor(rope_frequencies(options_), wide);
  const at::Tensor angles =
      at::outer(at::arange(first_position, first_position + x.size(2), wide), frequencies);  // [T, h/2]
  const at::Tensor cosine = angles.cos().to(x.scalar_type());
  const at::Tensor sine = angles.sin().to(x.scalar_type());
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  return at::cat({first.mul(cosine).sub(second.mul(sine)), second.mul(cosine).add(first.mul(sine))}, -1);
}

// Angles err by the power and the product, at most `angle` of them; cosine and sine are cast, products and sums rounded.
Enclosure Rope::enclose(const Enclosure& x, const ErrorWalk& walk) const {
  const double largest = static_cast<double>(x.values.size(2)) * std::max(1.0, 1.0 / options_.theta);
  const double angle = largest * (2.0 * std::abs(std::log(options_.theta)) + 8.0) * 0x1p-52;
  constexpr double kLargestAngle = 1e9;  // up to here sine and cosine are as good as elsewhere
  const double angle_error =
      largest <= kLargestAngle ? 2.0 * angle + 0x1p-46 : std::numeric_limits<double>::infinity();
  const at::Tensor lost = walk.size(x).mul(walk.unit(x.error.dim()).mul(8.0).add(angle_error));
  const double root = 4.0 * std::sqrt(static_cast<double>(options_.head_size));
  return {forward(x.values), x.reach, raised(x.error.add(lost).add(walk.least(x.error.dim()).mul(root)))};
}

}  // namespace bridle
