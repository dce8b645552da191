// See rank_one.h.
#include "constraint/rank_one.h"

#include <ATen/ops/addr.h>

#include "linalg/product.h"

namespace bridle {

Tensor PowerIterationConstraint::add_rank_one(const Tensor& weight, const TopSingular& top,
                                              const Tensor& factor) {
  const Tensor left = top.left.mul(factor.unsqueeze(-1));  // [b, m]
  const Tensor wide = weight.to(left.scalar_type());
  if (weight.dim() == 2)
    return at::addr(wide, left.squeeze(0), top.right.squeeze(0)).to(weight.scalar_type());
  return product_plus(wide, 1.0, left.unsqueeze(-1), top.right.unsqueeze(-2)).to(weight.scalar_type());
}

}  // namespace bridle
