#include "nn/fused_norm.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "nn/fused_group.h"
#include "nn/fused_linear.h"

namespace bridle {
namespace {

constexpr int64_t kPartRows = 64;  // that a member takes at once

void copy_to(const std::optional<Param>& param, std::vector<float>& values) {
  if (!param) return;
  const at::Tensor own = param->tensor.detach().contiguous();
  std::copy_n(static_cast<const float*>(own.data_ptr()), own.numel(), values.begin());
}

}  // namespace

FusedNorm::FusedNorm(FusedProgram& program, FusedNormOptions options)
    : options_(std::move(options)),
      normal_(program.matrix(options_.size)),
      out_(options_.gain || options_.bias ? program.matrix(options_.size) : normal_),
      d_out_(program.matrix(options_.size)),
      inverse_(program.floats(1)) {
  const auto columns = static_cast<size_t>(padded(options_.size));
  if (options_.gain) {
    gain_.assign(columns, 0.0F);
    gain_place_ = program.place_of(*options_.gain);
    gain_sums_ = program.sums(padded(options_.size), /*from_zero=*/true);
  }
  if (options_.bias) {
    bias_.assign(columns, 0.0F);
    bias_place_ = program.place_of(*options_.bias);
    bias_sums_ = program.sums(padded(options_.size), /*from_zero=*/true);
  }
}

FusedOperation::Uses FusedNorm::uses() const {
  const FusedValue& in = options_.in;
  return {.forward = {in.stream, normal_, out_, inverse_},
          .backward = {in.stream, in.gradient, normal_, d_out_, inverse_}};
}

void FusedNorm::read_tables(const FusedProgram& /*program*/) {
  copy_to(options_.gain, gain_);
  copy_to(options_.bias, bias_);
}

NormTask FusedNorm::task(const FusedGroup& group, int64_t row, int64_t rows) const {
  const FusedMatrix normal = group.matrix(normal_);
  return {.kind = options_.kind,
          .rows = rows,
          .size = options_.size,
          .columns = normal.columns,
          .epsilon = static_cast<float>(options_.epsilon),
          .gain = gain_.empty() ? nullptr : gain_.data(),
          .bias = bias_.empty() ? nullptr : bias_.data(),
          .stream = group.floats(options_.in.stream) + row * normal.columns,
          .normal = normal.row(row),
          .stride = normal.stride,
          .inverse = group.floats(inverse_) + row};
}

template <class Run>
void FusedNorm::each_rows(FusedGroup& group, const FusedPart& part, const Run& run) const {
  group.team().each((part.rows + kPartRows - 1) / kPartRows, [&](int64_t item, int) {
    const int64_t row = part.first + item * kPartRows;
    run(row, std::min(kPartRows, part.first + part.rows - row));
  });
}

void FusedNorm::forward(FusedGroup& group, const FusedPart& part) const {
  each_rows(group, part, [&](int64_t row, int64_t rows) {
    NormTask own = task(group, row, rows);
    own.out = group.matrix(out_).row(row);
    group.kernels().norm(own);
  });
}

void FusedNorm::backward(FusedGroup& group, const FusedPart& part) const {
  each_rows(group, part, [&](int64_t row, int64_t rows) {
    NormTask own = task(group, row, rows);
    own.out = group.matrix(d_out_).row(row);
    own.keep = group.value(options_.in.keep);
    own.keeps = group.columns(options_.in.keep);
    own.copy = group.matrix(options_.in.gradient).row(row);
    group.kernels().norm_backward(own);
  });
}

void FusedNorm::add_gradients(FusedGroup& group) const {
  const FusedMatrix d_out = group.matrix(d_out_), normal = group.matrix(normal_);
  if (options_.gain) add_columns(group, d_out, group.sums_at(gain_sums_), &normal);
  if (options_.bias) add_columns(group, d_out, group.sums_at(bias_sums_));
}

void FusedNorm::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  const auto give = [&](const Param& param, size_t place, FusedSumsPlace sums) {
    results[place] = at::zeros_like(param.tensor.detach());
    slots.add_rows(sums, padded(options_.size), mean, results[place].unsqueeze(0));
  };
  if (options_.gain) give(*options_.gain, gain_place_, gain_sums_);
  if (options_.bias) give(*options_.bias, bias_place_, bias_sums_);
}

ActivationStatistics::Layer largest_of(const float* values, int64_t rows, int64_t stride, int64_t size) {
  const auto larger = [](double a, double b) { return b > a || std::isnan(b) ? b : a; };
  ActivationStatistics::Layer seen;
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0.0, entry = 0.0;
    for (int64_t i = 0; i < size; ++i) {
      const double x = values[row * stride + i];
      squares += x * x;
      entry = larger(entry, std::abs(x));
    }
    seen.largest_rms = larger(seen.largest_rms, std::sqrt(squares / static_cast<double>(size)));
    seen.largest_entry = larger(seen.largest_entry, entry);
  }
  return seen;
}

ActivationStatistics::Layer largest_of(const FusedMatrix& matrix, int64_t first, int64_t rows, int64_t size) {
  std::vector<float> wide(static_cast<size_t>(rows * size));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < size; ++i) {
      uint32_t bits = 0;  // of a bfloat16, the upper half of a float32
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + 4 - matrix.value_bytes, matrix.at(first + row, i),
                  static_cast<size_t>(matrix.value_bytes));
      std::memcpy(&wide[static_cast<size_t>(row * size + i)], &bits, sizeof(float));
    }
  }
  return largest_of(wide.data(), rows, size, size);
}

void FusedStatistics::forward(FusedGroup& group, const FusedPart& part) const {
  if (!group.wants_statistics()) return;
  const int64_t rows = group.shape().rows, length = group.shape().length;
  for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
    const int64_t first = sequence * rows;
    const auto seen = of_ == Of::matrix ? largest_of(group.matrix(buffer_), first, length, size_)
                                        : largest_of(group.floats(buffer_) + first * padded(size_), length,
                                                     padded(size_), size_);
    group.record(name_, seen.largest_rms, seen.largest_entry);
  }
}

}  // namespace bridle
