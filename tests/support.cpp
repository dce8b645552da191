// See support.h.
#include "support.h"

#include <ATen/ops/diag.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/zeros.h>

#include "bridle/random.h"

namespace bridle::test {

Tensor normal(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype) {
  return random_normal(shape, {.seed = seed, .stream = Stream::test}, dtype);
}

Tensor matrix_with_spectrum(const Tensor& spectrum, int64_t m, int64_t n, uint64_t seed) {
  const int64_t rank = std::min(m, n);
  const auto u = std::get<0>(at::linalg_qr(normal({m, rank}, 2 * seed)));
  const auto v = std::get<0>(at::linalg_qr(normal({n, rank}, 2 * seed + 1)));
  return at::mm(u.mul(spectrum), v.t());
}

const char* spectrum_name(int kind) {
  constexpr const char* names[kSpectra] = {"flat", "decaying", "rank_deficient", "one_outlier", "1e-30",
                                           "1e30", "zero"};
  return names[kind];
}

Tensor spectrum(int kind, int64_t rank, uint64_t seed) {
  const Tensor uniform =
      random_uniform({rank}, {.seed = seed, .stream = Stream::test, .step = 1}, at::kDouble);
  switch (kind) {
    case 0:
      return at::full({rank}, 1.5, at::kDouble);
    case 1:
      return at::pow(10.0, uniform.mul(-4.0)).mul(2.0);
    case 2:
      return uniform.mul(3.0).mul(uniform.gt(0.5));
    case 3: {
      const Tensor values = uniform.mul(0.1);
      values[0] = 3.0;
      return values;
    }
    case 4:
      return uniform.mul(1e-30);
    case 5:
      return uniform.mul(1e30);
    default:
      return at::zeros({rank}, at::kDouble);
  }
}

Tensor singular_values(const Tensor& matrix) { return at::linalg_svdvals(matrix.to(at::kDouble)); }

double spectral_norm(const Tensor& matrix) { return singular_values(matrix).max().item<double>(); }

double largest_difference(const Tensor& a, const Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

Tensor map_singular_values(const Tensor& matrix, const std::function<double(double)>& f) {
  const auto [u, s, vt] = at::linalg_svd(matrix.to(at::kDouble), false);
  const Tensor mapped = s.clone();
  for (int64_t i = 0; i < s.numel(); ++i) mapped[i] = f(s[i].item<double>());
  return at::mm(u.mul(mapped), vt);
}

double epsilon(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return 0x1p-8;
  return dtype == at::kFloat ? 0x1p-23 : 0x1p-52;
}

}  // namespace bridle::test
