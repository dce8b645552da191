// See rank_one.h.
#include "constraint/rank_one.h"

#include "linalg/product.h"

namespace bridle {

Tensor PowerIterationConstraint::add_rank_one(const Tensor& weight, const TopSingular& top,
                                              const Tensor& factor) {
  const Tensor left = top.left.mul(factor.unsqueeze(-1)).unsqueeze(-1);  // [b, m, 1]
  const Tensor right = top.right.unsqueeze(-2);                          // [b, 1, n]
  const Tensor wide = weight.to(left.scalar_type());
  if (weight.dim() == 2)
    return product_plus(wide, 1.0, left.squeeze(0), right.squeeze(0)).to(weight.scalar_type());
  return product_plus(wide, 1.0, left, right).to(weight.scalar_type());
}

}  // namespace bridle
