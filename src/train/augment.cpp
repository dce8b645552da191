// See augment.h.
#include "train/augment.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <cmath>

#include "bridle/error.h"

namespace bridle {

at::Tensor augment(const at::Tensor& images, bool mirror, int64_t shift, const RandomKey& key) {
  const int64_t count = images.size(0), area = images.size(1) / 3;
  const auto side = std::lround(std::sqrt(static_cast<double>(area)));
  if (3 * side * side != images.size(1))
    throw InputError("training",
                     fmt::format("images must be squares of three channels, got {} numbers", images.size(1)));
  const at::Tensor draw = random_uniform({3, count, 1}, key, at::kDouble);
  const auto moved = [&](const at::Tensor& uniform) {  // where each row or column comes from: [B, side]
    const at::Tensor by = uniform.mul(static_cast<double>(2 * shift + 1)).floor().to(at::kLong).sub(shift);
    return at::arange(side, at::kLong).add(by).clamp(0, side - 1);
  };
  const at::Tensor rows = moved(draw[0]);
  at::Tensor columns = moved(draw[1]);
  if (mirror) columns = at::where(draw[2].lt(0.5), columns.mul(-1).add(side - 1), columns);
  const at::Tensor from = rows.unsqueeze(2).mul(side).add(columns.unsqueeze(1));
  return images.view({count, 3, area})
      .gather(2, from.view({count, 1, area}).expand({count, 3, area}).to(images.device()))
      .view({count, 3 * area});
}

}  // namespace bridle
