// The inner loops of power_rounds, compiled once for each instruction set by the files that include this one.
// The functions are static so that no file's version can stand in for another's.
#pragma once

#include <cstdint>

namespace bridle {

// Rows [0, rows) of a matrix whose rows lie `stride` apart: out = scale·Wv, and total += Wᵀ·out. Null total:
// products only.
template <class T>
using RowPass = void (*)(const T* matrix, int64_t rows, int64_t columns, int64_t stride, const T* v, T scale,
                         T* out, T* total);

RowPass<float> row_pass_avx2_float();
RowPass<double> row_pass_avx2_double();
RowPass<float> row_pass_avx512_float();
RowPass<double> row_pass_avx512_double();

namespace {

// Four rows at a time: v and total are read once for all of them.
template <class T>
void pass_four(const T* w, int64_t columns, int64_t stride, const T* v, T scale, T* out, T* total) {
  const T *a = w, *b = w + stride, *c = w + 2 * stride, *d = w + 3 * stride;
  T sa = 0, sb = 0, sc = 0, sd = 0;
#pragma omp simd reduction(+ : sa, sb, sc, sd)
  for (int64_t j = 0; j < columns; ++j) {
    sa += a[j] * v[j];
    sb += b[j] * v[j];
    sc += c[j] * v[j];
    sd += d[j] * v[j];
  }
  out[0] = sa;
  out[1] = sb;
  out[2] = sc;
  out[3] = sd;
  if (total == nullptr) return;
  sa *= scale;
  sb *= scale;
  sc *= scale;
  sd *= scale;
#pragma omp simd
  for (int64_t j = 0; j < columns; ++j) total[j] += (sa * a[j] + sb * b[j]) + (sc * c[j] + sd * d[j]);
}

template <class T>
void pass_one(const T* w, int64_t columns, const T* v, T scale, T* out, T* total) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < columns; ++j) sum += w[j] * v[j];
  *out = sum;
  if (total == nullptr) return;
  sum *= scale;
#pragma omp simd
  for (int64_t j = 0; j < columns; ++j) total[j] += sum * w[j];
}

template <class T>
void row_pass(const T* matrix, int64_t rows, int64_t columns, int64_t stride, const T* v, T scale, T* out,
              T* total) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) pass_four(matrix + i * stride, columns, stride, v, scale, out + i, total);
  for (; i < rows; ++i) pass_one(matrix + i * stride, columns, v, scale, out + i, total);
}

}  // namespace
}  // namespace bridle
