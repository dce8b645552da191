// See token_noise.h.
#include "train/token_noise.h"

#include <ATen/ops/where.h>

namespace bridle {

at::Tensor with_wrong_tokens(const at::Tensor& tokens, double share, int64_t vocabulary,
                             const RandomKey& key) {
  // One draw decides both: below the share, what is left of it is even again.
  const at::Tensor draw = random_uniform(tokens.sizes(), key, at::kDouble).div(share);
  const at::Tensor drawn =
      draw.mul(static_cast<double>(vocabulary)).floor().clamp_max(static_cast<double>(vocabulary - 1));
  return at::where(draw.lt(1.0).to(tokens.device()), drawn.to(tokens.options()), tokens);
}

}  // namespace bridle
