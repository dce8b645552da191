#include "constraint/product_flop.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "linalg/polynomials.h"

namespace bridle {

BlockSides::BlockSides(const Tensor& blocks)
    : count(static_cast<double>(blocks.size(0))),
      shorter(static_cast<double>(std::min(blocks.size(1), blocks.size(2)))),
      longer(static_cast<double>(std::max(blocks.size(1), blocks.size(2)))) {}

ProductFlop polynomial_flop(const Tensor& blocks, std::span<const OddPolynomial> list,
                            at::ScalarType products) {
  const ProductCounts counts = count_products(blocks, list, products);
  const BlockSides sides(blocks);
  const double wide = counts.wide * sides.wide(), small = counts.small * sides.small();
  if (products != at::kBFloat16) return {.all = wide + small};
  return {.all = wide + small, .bfloat16 = wide + (counts.in_gram_space ? 0.0 : small)};
}

// The sign of W and its overlap with W; then for each threshold the sign of a small matrix in the weight's own precision, and
// the product that moves the values.
ProductFlop sign_flop(const Tensor& blocks, int thresholds, at::ScalarType products) {
  const std::vector<OddPolynomial> sign(8, {2.0, 1.0, 1.0});
  ProductFlop flop = polynomial_flop(blocks, sign, products);
  const double wide = (1 + thresholds) * BlockSides(blocks).wide();
  flop += {.all = wide, .bfloat16 = products == at::kBFloat16 ? wide : 0.0};
  const int64_t side = std::min(blocks.size(1), blocks.size(2));
  const Tensor square = at::empty({blocks.size(0), side, side}, at::kMeta);
  for (int i = 0; i < thresholds; ++i) flop += polynomial_flop(square, sign, blocks.scalar_type());
  return flop;
}

ProductFlop gram_cap_flop(const Tensor& blocks) {
  const std::vector<OddPolynomial> sign(8, {2.0, 1.0, 1.0});
  const int64_t side = std::min(blocks.size(1), blocks.size(2));
  const Tensor square = at::empty({blocks.size(0), side, side}, at::kMeta);
  const BlockSides sides(blocks);
  ProductFlop flop = polynomial_flop(square, sign, blocks.scalar_type());
  flop += {.all = 2.0 * sides.wide() + 5.0 * sides.small(), .bfloat16 = 0.0};
  return flop;
}

}  // namespace bridle
