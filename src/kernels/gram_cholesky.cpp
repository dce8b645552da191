// See gram_cholesky.h. BLAS counts columns first, so that our rows are its columns, and our lower triangle its upper one.
#include "kernels/gram_cholesky.h"

#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

extern "C" {
void dsyrk_(const char* triangle, const char* transpose, const int* n, const int* k, const double* alpha,
            const double* a, const int* row_length_a, const double* beta, double* c, const int* row_length_c);
void dpotrf_(const char* triangle, const int* n, double* a, const int* row_length, int* info);
}

namespace bridle {
namespace {

bool is_wide(const at::Tensor& w) { return w.size(0) <= w.size(1); }

bool fits_blas(const at::Tensor& w) {
  const auto most = static_cast<int64_t>(std::numeric_limits<int>::max());
  return w.is_cpu() && w.numel() > 0 && w.size(0) <= most && w.size(1) <= most;
}

}  // namespace

at::Tensor lower_gram_plain(const at::Tensor& w) {
  const at::Tensor wide = w.to(at::kDouble);
  return (is_wide(w) ? at::mm(wide, wide.t()) : at::mm(wide.t(), wide)).tril();
}

bool cholesky_plain_(at::Tensor& m) {
  const auto [factor, info] = at::linalg_cholesky_ex(m, /*upper=*/false, /*check_errors=*/false);
  m.copy_(factor);
  return info.item<int>() == 0;
}

at::Tensor lower_gram(const at::Tensor& w) {
  if (!fits_blas(w)) return lower_gram_plain(w);
  const bool wide = is_wide(w);
  const int64_t summed = wide ? 1 : 0, length = w.size(summed);
  const auto n = static_cast<int>(w.size(1 - summed));
  at::Tensor g = at::zeros({n, n}, w.options().dtype(at::kDouble));
  const double one = 1.0;
  constexpr int64_t part = 256;  // in float64 it stays in the second cache
  for (int64_t begin = 0; begin < length; begin += part) {
    const at::Tensor rows =
        w.narrow(summed, begin, std::min(part, length - begin)).to(at::kDouble).contiguous();
    const auto k = static_cast<int>(rows.size(summed)), row_length = static_cast<int>(rows.size(1));
    dsyrk_("U", wide ? "T" : "N", &n, &k, &one, rows.data_ptr<double>(), &row_length, &one,
           g.data_ptr<double>(), &n);
  }
  return g;
}

bool cholesky_(at::Tensor& m) {
  if (!fits_blas(m)) return cholesky_plain_(m);
  const auto n = static_cast<int>(m.size(0));
  int info = 0;
  dpotrf_("U", &n, m.data_ptr<double>(), &n, &info);
  return info == 0;
}

}  // namespace bridle
