#include "nn/fused_attention.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "nn/fused_group.h"

namespace bridle {
namespace {

constexpr int64_t kPartRows = 256;  // that a member takes at once

// Columns that no head writes: memory is shared, so something else may stand there, which a product would multiply by zero.
void clear_columns(const FusedMatrix& matrix, int64_t begin, int64_t end, int64_t first, int64_t rows) {
  for (int64_t row = first; begin < end && row < first + rows; ++row)
    std::fill(matrix.at(row, begin), matrix.at(row, end), std::byte{0});
}

}  // namespace

void FusedRope::set_rows(FusedProgram& /*program*/, int64_t rows) {
  const int64_t half = heads_.head_size / 2;
  cosine_.resize(static_cast<size_t>(rows * half));
  sine_.resize(static_cast<size_t>(rows * half));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) *
          std::pow(theta_, -2.0 * static_cast<double>(i) / static_cast<double>(heads_.head_size));
      cosine_[static_cast<size_t>(t * half + i)] = static_cast<float>(std::cos(angle));
      sine_[static_cast<size_t>(t * half + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

void FusedRope::rotate(FusedGroup& group, FusedBuffer buffer, const FusedPart& part, float direction) const {
  const FusedMatrix qkv = group.matrix(buffer);
  const int64_t half = heads_.head_size / 2, length = group.shape().rows;
  const auto rotate_rows = [&](int64_t row, int64_t rows) {
    const int64_t position = row % length;
    RopeTask task{.stride = qkv.stride,
                  .rows = rows,
                  .head_size = heads_.head_size,
                  .cosine = cosine_.data() + position * half,
                  .sine = sine_.data() + position * half,
                  .direction = direction};
    task.data = qkv.row(row);
    task.heads = heads_.heads;
    group.kernels().rope(task);
    task.data = qkv.at(row, heads_.key_column);
    task.heads = heads_.kv_heads;
    group.kernels().rope(task);
  };
  group.team().each((part.rows + kPartRows - 1) / kPartRows, [&](int64_t i, int) {
    const int64_t end = part.first + std::min((i + 1) * kPartRows, part.rows);
    for (int64_t row = part.first + i * kPartRows; row < end;) {
      const int64_t rows = std::min(end - row, length - row % length);
      rotate_rows(row, rows);
      row += rows;
    }
  });
}

void FusedRope::forward(FusedGroup& group, const FusedPart& part) const {
  rotate(group, heads_.qkv, part, 1.0F);
}

void FusedRope::backward(FusedGroup& group, const FusedPart& part) const {
  rotate(group, heads_.d_qkv, part, -1.0F);
}

template <class Kernel>
void FusedHeadNorm::each_rows(FusedGroup& group, const FusedPart& part, Kernel kernel) const {
  const FusedMatrix qkv = group.matrix(heads_.qkv), d_qkv = group.matrix(heads_.d_qkv);
  const int64_t stride = heads_.heads + heads_.kv_heads;
  group.team().each((part.rows + kPartRows - 1) / kPartRows, [&](int64_t item, int) {
    const int64_t row = part.first + item * kPartRows;
    float* inverse = group.floats(inverse_) + row * stride;
    const auto run = [&](int64_t column, int64_t heads, int64_t first) {
      (group.kernels().*kernel)({.data = qkv.at(row, column),
                                 .gradient = d_qkv.at(row, column),
                                 .stride = qkv.stride,
                                 .rows = std::min(kPartRows, part.first + part.rows - row),
                                 .heads = heads,
                                 .head_size = heads_.head_size,
                                 .epsilon = static_cast<float>(epsilon_),
                                 .inverse = inverse + first,
                                 .inverse_stride = stride});
    };
    run(0, heads_.heads, 0);
    run(heads_.key_column, heads_.kv_heads, heads_.heads);
  });
}

void FusedHeadNorm::forward(FusedGroup& group, const FusedPart& part) const {
  each_rows(group, part, &StepKernels::head_norm);
}

void FusedHeadNorm::backward(FusedGroup& group, const FusedPart& part) const {
  each_rows(group, part, &StepKernels::head_norm_backward);
}

FusedAttention::FusedAttention(FusedProgram& program, FusedAttentionOptions options)
    : options_(std::move(options)), value_bytes_(program.kernels().value_bytes()) {
  if (options_.dropout > 0.0) dropout_call_ = program.next_dropout_call();
  if (!options_.position_bias) return;
  bias_place_ = program.place_of(*options_.position_bias);
  bias_sums_ = program.sums(0, /*from_zero=*/true);
}

FusedOperation::Uses FusedAttention::uses() const {
  const FusedAttentionOptions& o = options_;
  return {.forward = {o.heads.qkv, o.out, o.log_sums},
          .backward = {o.heads.qkv, o.out, o.log_sums, o.d_out, o.heads.d_qkv}};
}

int64_t FusedAttention::member_scratch(const FusedShape& shape) const {
  return attention_scratch(shape.rows, options_.heads.head_size, value_bytes_);
}

void FusedAttention::set_rows(FusedProgram& program, int64_t rows) {
  rows_ = rows;
  if (!options_.position_bias) return;
  bias_.assign(static_cast<size_t>(options_.heads.heads * 2 * rows), 0.0F);
  program.resize_sums(bias_sums_, std::ssize(bias_));
}

// At rows − 1 − offset; the last offset serves all that are farther.
void FusedAttention::read_tables(const FusedProgram& /*program*/) {
  if (!options_.position_bias) return;
  const at::Tensor table = options_.position_bias->tensor.detach().contiguous();
  const int64_t offsets = table.size(1);
  for (int64_t head = 0; head < options_.heads.heads; ++head) {
    const float* from = static_cast<const float*>(table.data_ptr()) + head * offsets;
    float* to = bias_.data() + head * 2 * rows_;
    for (int64_t offset = 0; offset < rows_; ++offset)
      to[rows_ - 1 - offset] = from[std::min(offset, offsets - 1)];
  }
}

const float* FusedAttention::bias_of(int64_t head) const {
  return bias_.empty() ? nullptr : bias_.data() + head * 2 * rows_;
}

AttentionTask FusedAttention::task(const FusedGroup& group, int64_t sequence, int64_t head) const {
  const FusedHeads& h = options_.heads;
  const FusedMatrix qkv = group.matrix(h.qkv), out = group.matrix(options_.out);
  const int64_t row = sequence * rows_, served = head * h.kv_heads / h.heads;
  const int32_t* begins = group.inputs().begins;
  return {.sees = {begins == nullptr ? nullptr : begins + row, options_.window},
          .rows = rows_,
          .head_size = h.head_size,
          .scale = options_.scale,
          .q = qkv.at(row, head * h.head_size),
          .k = qkv.at(row, h.key_column + served * h.head_size),
          .v = qkv.at(row, h.value_column + served * h.head_size),
          .stride = qkv.stride,
          .out = out.at(row, head * h.head_size),
          .out_stride = out.stride,
          .log_sums = group.floats(options_.log_sums) + row * h.heads + head * rows_,
          .bias = bias_of(head),
          .drop = group.drop(options_.dropout, dropout_call_),
          .drop_row = ((group.inputs().sequence + sequence) * h.heads + head) * rows_};
}

void FusedAttention::forward(FusedGroup& group, const FusedPart& part) const {
  const int64_t heads = options_.heads.heads;
  const FusedMatrix out = group.matrix(options_.out);
  clear_columns(out, heads * options_.heads.head_size, out.columns, part.first, part.rows);
  group.team().each(part.count * heads, [&](int64_t item, int member) {
    AttentionTask own = task(group, part.sequence + item / heads, item % heads);
    own.scratch = group.member_scratch(member);
    group.kernels().attend(own);
  });
}

// Members take whole heads of keys and values, so that what is added up for a head has one order.
void FusedAttention::backward(FusedGroup& group, const FusedPart& part) const {
  const FusedHeads& h = options_.heads;
  const FusedMatrix d_qkv = group.matrix(h.d_qkv), d_out = group.matrix(options_.d_out);
  const int64_t together = h.heads / h.kv_heads, kv_size = h.kv_heads * h.head_size;
  clear_columns(d_qkv, h.heads * h.head_size, h.key_column, part.first, part.rows);
  clear_columns(d_qkv, h.key_column + kv_size, h.value_column, part.first, part.rows);
  clear_columns(d_qkv, h.value_column + kv_size, d_qkv.columns, part.first, part.rows);
  group.team().each(h.kv_heads, [&](int64_t kv_head, int member) {
    for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
      for (int64_t head = kv_head * together; head < (kv_head + 1) * together; ++head) {
        AttentionTask own = task(group, sequence, head);
        const int64_t row = sequence * rows_;
        own.d_out = d_out.at(row, head * h.head_size);
        own.dq = d_qkv.at(row, head * h.head_size);
        own.dk = d_qkv.at(row, h.key_column + kv_head * h.head_size);
        own.dv = d_qkv.at(row, h.value_column + kv_head * h.head_size);
        own.add_keys = head > kv_head * together;
        if (options_.position_bias) own.d_bias = group.sums_at(bias_sums_) + head * 2 * rows_;
        own.scratch = group.member_scratch(member);
        group.kernels().attend_backward(own);
      }
    }
  });
}

void FusedAttention::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  if (!options_.position_bias) return;
  at::Tensor& out = results[bias_place_] = at::zeros_like(options_.position_bias->tensor.detach());
  auto* data = static_cast<float*>(out.data_ptr());
  const int64_t offsets = out.size(1);
  for (int64_t head = 0; head < out.size(0); ++head)
    for (const float* slot : slots.at(bias_sums_)) {
      const float* from = slot + head * 2 * rows_;
      for (int64_t offset = 0; offset < rows_; ++offset)
        data[head * offsets + std::min(offset, offsets - 1)] += mean * from[rows_ - 1 - offset];
    }
}

}  // namespace bridle
