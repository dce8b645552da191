// See embedding.h.
#include "optim/embedding.h"

#include <ATen/ops/linalg_vector_norm.h>

#include <cmath>

namespace bridle {

Tensor normalize_rows(const Tensor& rows, double inflation_limit) {
  Tensor norm = at::linalg_vector_norm(rows, 2, {-1}, true);
  if (!std::isfinite(norm.max().item<double>())) {  // squares beyond float32's range
    norm = at::linalg_vector_norm(rows, 2, {-1}, true, at::kDouble).to(rows.scalar_type());
  }
  const Tensor rms = norm.div_(std::sqrt(static_cast<double>(rows.size(-1))));
  return rows.div(rms.clamp_min_(1.0 / inflation_limit));
}

}  // namespace bridle
