#include "robust/cosine_waves.h"

#include <ATen/ops/arange.h>

#include <cmath>
#include <numbers>

namespace bridle {

at::Tensor cosine_waves(int64_t count, int64_t pixels, const RandomKey& key) {
  const auto side_of = [](int64_t area) {
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(area))));
    return side * side == area ? side : 0;
  };
  const int64_t channels = pixels % 3 == 0 && side_of(pixels / 3) > 0 ? 3 : 1;
  const int64_t side = side_of(pixels / channels);
  const int64_t rows = side > 0 ? side : 1;
  const int64_t columns = pixels / channels / rows;
  const at::Tensor draws = random_uniform({count, 3}, key, at::kDouble);
  const auto along = [&](int64_t size, int64_t which) {
    const at::Tensor frequency = draws.select(1, which).square().mul(static_cast<double>(size)).floor();
    const at::Tensor place = at::arange(size, draws.options()).add(0.5);
    return frequency.unsqueeze(1).mul(place).mul(std::numbers::pi / static_cast<double>(size)).cos();
  };
  const at::Tensor wave = along(rows, 0)
                              .to(at::kFloat)
                              .unsqueeze(2)
                              .mul(along(columns, 1).to(at::kFloat).unsqueeze(1));  // [N, R, C]
  const at::Tensor channel = draws.select(1, 2).mul(static_cast<double>(channels)).floor();
  const at::Tensor chosen = channel.unsqueeze(1).eq(at::arange(channels, draws.options()));
  const at::Tensor all = chosen.to(at::kFloat).view({count, channels, 1, 1}).mul(wave.unsqueeze(1));
  const at::Tensor flat = all.reshape({count, pixels});
  return flat.div(flat.square().sum(1, /*keepdim=*/true).sqrt());
}

}  // namespace bridle
