#include "constraint/product_flop.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <array>

namespace bridle {
namespace {

const Tensor kBlocks = at::empty({3, 4, 8}, at::device(at::kMeta).dtype(at::kFloat));

TEST(ProductFlop, OfAPolynomialIsWhatOneCountsByHand) {
  const std::array<OddPolynomial, 1> cubic = {{{1.0, 1.0, 0.0}}};
  // WWᵀ and its product with W: 2·4·4·8 each, three blocks.
  EXPECT_EQ(polynomial_flop(kBlocks, cubic, at::kFloat).all, 2 * 3 * 256);
  EXPECT_EQ(polynomial_flop(kBlocks, cubic, at::kFloat).bfloat16, 0.0);
  EXPECT_EQ(polynomial_flop(kBlocks, cubic, at::kBFloat16).bfloat16, 2 * 3 * 256);
}

// The long side is in two products, and 29 have the short one alone: eight steps of a sign with three each, and five more.
TEST(ProductFlop, OfACapByItsGramMatrixIsWhatOneCountsByHand) {
  EXPECT_EQ(gram_cap_flop(kBlocks).all, 2 * 3 * 256 + 29 * 3 * 128);
  EXPECT_EQ(gram_cap_flop(kBlocks).bfloat16, 0.0);
}

// Methods that work on products have some; only the exact decomposition, decay and nothing at all have none.
TEST(ProductFlop, IsCountedByEveryMethodThatMultiplies) {
  for (const std::string& name : constraint_names()) {
    const bool multiplies = name != "none" && name != "weight_decay" && name != "hard_cap_svd";
    const auto constraint = make_constraint({.method = name});
    EXPECT_EQ(constraint->product_flop(kBlocks).all > 0.0, multiplies) << name;
    EXPECT_EQ(constraint->product_flop(kBlocks).bfloat16, 0.0) << name;
  }
  EXPECT_GT(make_constraint({.method = "clip"})->product_flop(kBlocks).all,
            make_constraint({.method = "hard_cap"})->product_flop(kBlocks).all);
}

}  // namespace
}  // namespace bridle
