// Odd polynomials of singular values. With A = WWᵀ, p(W) = (aI + bA + cA²)W: products only, no decomposition.
#include "linalg/polynomials.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "kernels/cpu.h"
#include "kernels/newton_schulz.h"
#include "linalg/product.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

// aI + bA + cA²
Tensor side_factor(const OddPolynomial& p, const Tensor& a) {
  const Tensor sum = p.c == 0.0 ? a.mul(p.b) : product_plus(a, p.b, a, a, p.c);
  sum.diagonal(0, -2, -1).add_(p.a);
  return sum;
}

Tensor direct_step(const Tensor& w, const OddPolynomial& p, at::ScalarType products) {
  const Tensor x = w.to(products);
  const Tensor a = gram(x);
  if (p.c == 0.0) return apply_side_plus(w, p.a, a, x, p.b);
  return apply_side_plus(w, p.a, product_plus(a, p.b, a, a, p.c), x);
}

// Q acting on a narrower X. Q's eigenvalues run up to the product of all a's (1,136 for the six-step list),
// so that one rounding of Q to bfloat16 would swamp the result: Q is split into two bfloat16 terms.
Tensor apply_side_exactly(const Tensor& q, const Tensor& x) {
  if (q.scalar_type() == x.scalar_type()) return apply_side(q, x);
  constexpr int64_t part_lines = 1024;  // the float32 sums of a part stay in the cache
  const Tensor high = q.to(x.scalar_type()), low = q.sub(high).to(x.scalar_type());
  const Tensor result = at::empty_like(x);
  const int64_t lines = is_tall(x) ? -2 : -1;
  for (int64_t start = 0; start < x.size(lines); start += part_lines) {
    const int64_t count = std::min(part_lines, x.size(lines) - start);
    const Tensor part = x.narrow(lines, start, count);
    const Tensor rough =
        is_tall(x) ? product(part, high, q.scalar_type()) : product(high, part, q.scalar_type());
    result.narrow(lines, start, count)
        .copy_(is_tall(x) ? product_plus(rough, 1.0, part, low) : product_plus(rough, 1.0, low, part));
  }
  return result;
}

// The same in Gram space: with P = aI + bA + cA², A ← PAP and Q ← PQ, and only the first Gram matrix and the
// last product touch the long side. The small matrices are kept in float32 at least.
Tensor apply_in_gram_space(const Tensor& w, std::span<const OddPolynomial> list, at::ScalarType products) {
  const Tensor x = w.to(products);
  Tensor a = gram(x, products == at::kDouble ? at::kDouble : at::kFloat);
  Tensor q;
  bool near_identity = true;
  for (size_t i = 0; i < list.size(); ++i) {
    const Tensor p = side_factor(list[i], a);
    q = i == 0 ? p : product(p, q);
    if (i + 1 < list.size()) a = product(product(p, a), p);
    near_identity = near_identity && list[i].a == 1.0;
  }
  if (!near_identity) return apply_side_exactly(q, x).to(w.scalar_type());
  // Q − I is small where every polynomial starts with x: adding its part to W keeps W's own digits.
  q.diagonal(0, -2, -1).sub_(1.0);
  return apply_side_plus(w, 1.0, q.to(products), x);
}

ProductCounts count_direct(std::span<const OddPolynomial> list) {
  ProductCounts counts{.in_gram_space = false};
  for (const OddPolynomial& p : list) {
    counts.wide += 2;
    counts.small += p.c == 0.0 ? 0 : 1;
  }
  return counts;
}

ProductCounts count_in_gram_space(std::span<const OddPolynomial> list, at::ScalarType products) {
  const bool near_identity =
      std::all_of(list.begin(), list.end(), [](const OddPolynomial& p) { return p.a == 1.0; });
  const bool split = products == at::kBFloat16 && !near_identity;
  ProductCounts counts{.in_gram_space = true, .wide = split ? 3 : 2};
  for (const OddPolynomial& p : list) counts.small += p.c == 0.0 ? 0 : 1;
  counts.small += 3 * (static_cast<int>(list.size()) - 1);
  return counts;
}

// x + bx³ and then x − bx³, as soft cap has them.
bool is_soft_cap_on_tiles(const Tensor& matrix, std::span<const OddPolynomial> list,
                          at::ScalarType products) {
  return products == at::kBFloat16 && has_newton_schulz(matrix) && list.size() == 2 && list[0].a == 1.0 &&
         list[1].a == 1.0 && list[0].c == 0.0 && list[1].c == 0.0 && list[0].b == -list[1].b;
}

// With B = bA, (I − B(I + B)²)(I + B) = I − 3B² − 3B³ − B⁴: W keeps its digits, and two small products are enough.
Tensor apply_soft_cap_on_tiles(const Tensor& matrix, double b) {
  if (matrix.dim() == 2) {
    const double square = b * b;
    return add_even_polynomial_bf16(matrix,
                                    {static_cast<float>(-3.0 * square), static_cast<float>(-3.0 * square * b),
                                     static_cast<float>(-square * square)});
  }
  const Tensor out = at::empty_like(matrix);
  for (int64_t i = 0; i < matrix.size(0); ++i)
    out.select(0, i).copy_(apply_soft_cap_on_tiles(matrix.select(0, i), b));
  return out;
}

// In units of (short side)³. Small float32 products weigh more beside fast products of bfloat16.
double cost(const ProductCounts& counts, double aspect, at::ScalarType products) {
  const bool fast_bfloat16 = products == at::kBFloat16 && has_bfloat16_products();
  const double small = instruction_set() == InstructionSet::amx ? 6.0 : 2.0;
  return counts.wide * aspect + counts.small * (counts.in_gram_space && fast_bfloat16 ? small : 1.0);
}

}  // namespace

ProductCounts count_products(const Tensor& matrix, std::span<const OddPolynomial> list,
                             at::ScalarType products) {
  if (is_soft_cap_on_tiles(matrix, list, products)) return {.in_gram_space = false, .wide = 2, .small = 2};
  const auto rows = static_cast<double>(matrix.size(-2)), columns = static_cast<double>(matrix.size(-1));
  const double aspect = std::max(rows, columns) / std::min(rows, columns);
  const ProductCounts direct = count_direct(list), gram_space = count_in_gram_space(list, products);
  return cost(gram_space, aspect, products) < cost(direct, aspect, products) ? gram_space : direct;
}

Tensor apply_polynomials(const Tensor& matrix, std::span<const OddPolynomial> list,
                         std::optional<at::ScalarType> products) {
  require_matrix(matrix, "apply_polynomials");
  if (list.empty()) return matrix.clone();
  const at::ScalarType dtype = products.value_or(matrix.scalar_type());
  if (is_soft_cap_on_tiles(matrix, list, dtype)) return apply_soft_cap_on_tiles(matrix, list[0].b);
  if (count_products(matrix, list, dtype).in_gram_space) return apply_in_gram_space(matrix, list, dtype);
  Tensor w = matrix;
  for (const OddPolynomial& p : list) w = direct_step(w, p, dtype);
  return w;
}

}  // namespace bridle
