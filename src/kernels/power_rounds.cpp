// See power_rounds.h.
#include "kernels/power_rounds.h"

#include <ATen/Parallel.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/power_rounds_body.h"

namespace bridle {

using at::Tensor;

namespace {

constexpr int64_t kMostGroups = 8;            // of rows, each with a sum of its own, added in order
constexpr int64_t kRowsPerGroup = 32;         // at least
constexpr int64_t kSerialElements = 1 << 15;  // below, waking threads costs more than it gains

template <class T>
RowPass<T> choose_row_pass() {
  constexpr bool is_float = std::is_same_v<T, float>;
  if constexpr (is_float) {
    if (instruction_set() >= InstructionSet::avx512) return row_pass_avx512_float();
    if (instruction_set() >= InstructionSet::avx2) return row_pass_avx2_float();
  } else {
    if (instruction_set() >= InstructionSet::avx512) return row_pass_avx512_double();
    if (instruction_set() >= InstructionSet::avx2) return row_pass_avx2_double();
  }
  return row_pass<T>;
}

// One matrix. How rows are grouped depends on the size alone.
template <class T>
class Iteration {
 public:
  Iteration(const T* matrix, int64_t rows, int64_t columns, T scale)
      : matrix_(matrix),
        rows_(rows),
        columns_(columns),
        groups_(std::clamp<int64_t>(rows / kRowsPerGroup, 1, kMostGroups)),
        group_rows_((rows + groups_ - 1) / groups_),
        totals_(static_cast<size_t>(groups_ * columns)),
        scaled_(static_cast<size_t>(columns)),
        scale_(scale) {}

  void run(T* v, T* u, T* sigma, int rounds) {
    normalize(v, columns_);
    for (int round = 1; round < rounds; ++round) {
      pass(v, u, true);
      add_totals(v);
      normalize(v, columns_);
    }
    pass(v, u, false);
    *sigma = static_cast<T>(normalize(u, rows_) / static_cast<double>(scale_));
  }

 private:
  static double normalize(T* x, int64_t size) {
    double square = 0.0;
    for (int64_t i = 0; i < size; ++i) square += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double norm = std::sqrt(square);
    if (norm > 0.0) {
      const auto inverse = static_cast<T>(1.0 / norm);
      for (int64_t i = 0; i < size; ++i) x[i] *= inverse;
    }
    return norm;
  }

  void pass(const T* v, T* u, bool with_total) {
    if (with_total) std::fill(totals_.begin(), totals_.end(), T{0});
    // The scale goes to the vectors, so that no product with an entry of W leaves the range of T.
    std::transform(v, v + columns_, scaled_.begin(), [this](T x) { return x * scale_; });
    const auto run_group = [&](int64_t group) {
      const int64_t first = group * group_rows_, last = std::min(rows_, first + group_rows_);
      if (first >= last) return;
      T* total = with_total ? totals_.data() + group * columns_ : nullptr;
      row_pass_(matrix_ + first * columns_, last - first, columns_, columns_, scaled_.data(), scale_,
                u + first, total);
    };
    const bool serial = rows_ * columns_ < kSerialElements;
    at::parallel_for(0, groups_, serial ? groups_ : 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) run_group(group);
    });
  }

  void add_totals(T* v) const {
    std::copy_n(totals_.data(), columns_, v);
    for (int64_t group = 1; group < groups_; ++group) {
      const T* total = totals_.data() + group * columns_;
      for (int64_t j = 0; j < columns_; ++j) v[j] += total[j];
    }
  }

  const T* matrix_;
  int64_t rows_, columns_, groups_, group_rows_;
  std::vector<T> totals_, scaled_;
  T scale_;
  RowPass<T> row_pass_ = choose_row_pass<T>();
};

// The power of two that brings the largest entry near 1.
double scale_for(const Tensor& matrix) {
  const auto [least, most] = at::aminmax(matrix);
  const double largest = std::max(std::abs(least.item<double>()), std::abs(most.item<double>()));
  return largest > 0.0 && std::isfinite(largest)
             ? std::ldexp(1.0, std::clamp(-std::ilogb(largest), -120, 120))
             : 1.0;
}

template <class T>
PowerRounds power_rounds_cpu(const Tensor& matrices, const Tensor& start, int rounds) {
  const Tensor w = matrices.contiguous(), right = start.clone(at::MemoryFormat::Contiguous);
  const int64_t batches = w.size(0), rows = w.size(1), columns = w.size(2);
  const Tensor left = at::empty({batches, rows}, w.options()), sigma = at::empty({batches}, w.options());
  for (int64_t i = 0; i < batches; ++i) {
    Iteration<T>(w.data_ptr<T>() + i * rows * columns, rows, columns, static_cast<T>(scale_for(w[i])))
        .run(right.data_ptr<T>() + i * columns, left.data_ptr<T>() + i * rows, sigma.data_ptr<T>() + i,
             rounds);
  }
  return {sigma, left, right};
}

Tensor unit_vectors(const Tensor& x) {  // [b, n, 1]; zero stays zero
  const Tensor norm = at::linalg_vector_norm(x, 2, at::IntArrayRef{-2}, true);
  return x.div(norm.masked_fill(norm.eq(0), 1.0));
}

}  // namespace

PowerRounds power_rounds_plain(const Tensor& matrices, const Tensor& start, int rounds) {
  const Tensor largest = matrices.abs().amax({-2, -1}, true);
  const Tensor exact = largest.to(at::kDouble).log2().floor().neg().clamp(-120.0, 120.0).exp2();
  const Tensor scale = exact.masked_fill(largest.eq(0).logical_or(largest.isfinite().logical_not()), 1.0)
                           .to(matrices.scalar_type());
  Tensor v = unit_vectors(start.unsqueeze(-1));
  for (int round = 1; round < rounds; ++round) {
    v = unit_vectors(at::matmul(matrices.transpose(-2, -1), at::matmul(matrices, v.mul(scale)).mul(scale)));
  }
  const Tensor image = at::matmul(matrices, v.mul(scale));
  const Tensor norm = at::linalg_vector_norm(image, 2, at::IntArrayRef{-2, -1});
  return {norm.div(scale.view({-1})), unit_vectors(image).squeeze(-1), v.squeeze(-1)};
}

PowerRounds power_rounds(const Tensor& matrices, const Tensor& start, int rounds) {
  if (!matrices.is_cpu()) return power_rounds_plain(matrices, start, rounds);
  return matrices.scalar_type() == at::kDouble ? power_rounds_cpu<double>(matrices, start, rounds)
                                               : power_rounds_cpu<float>(matrices, start, rounds);
}

}  // namespace bridle
