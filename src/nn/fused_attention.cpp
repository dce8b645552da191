#include "nn/fused_attention.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "nn/fused_group.h"
#include "nn/heads.h"

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
  const std::vector<double> frequencies = rope_frequencies(options_);
  cosine_.resize(static_cast<size_t>(rows * half));
  sine_.resize(static_cast<size_t>(rows * half));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) * frequencies[static_cast<size_t>(i)];
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
    for (const FusedHeads::Part& own : {heads_.query, heads_.key}) {
      task.data = qkv.at(row, own.column);
      task.heads = own.heads;
      group.kernels().rope(task);
    }
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
  const int64_t stride = normed_heads();
  group.team().each((part.rows + kPartRows - 1) / kPartRows, [&](int64_t item, int) {
    const int64_t row = part.first + item * kPartRows;
    float* inverse = group.floats(inverse_) + row * stride;
    for (const FusedHeads::Part& own : parts_) {
      (group.kernels().*kernel)({.data = qkv.at(row, own.column),
                                 .gradient = d_qkv.at(row, own.column),
                                 .stride = qkv.stride,
                                 .rows = std::min(kPartRows, part.first + part.rows - row),
                                 .heads = own.heads,
                                 .head_size = heads_.head_size,
                                 .epsilon = static_cast<float>(epsilon_),
                                 .inverse = inverse,
                                 .inverse_stride = stride});
      inverse += own.heads;
    }
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
  return 2 * key_sums(shape.rows) * int64_t{sizeof(float)} +
         attention_scratch(shape.rows, options_.heads.head_size, value_bytes_);
}

void FusedAttention::set_rows(FusedProgram& program, int64_t rows) {
  rows_ = rows;
  if (!options_.position_bias) return;
  bias_.assign(static_cast<size_t>(options_.heads.query.heads * 2 * rows), 0.0F);
  program.resize_sums(bias_sums_, std::ssize(bias_));
}

void spread_offsets(const Param& table, int64_t rows, std::vector<float>& out) {
  const at::Tensor values = table.tensor.detach().contiguous();
  const int64_t heads = values.size(0), offsets = values.size(1);
  out.assign(static_cast<size_t>(heads * 2 * rows), 0.0F);
  for (int64_t head = 0; head < heads; ++head) {
    const float* from = static_cast<const float*>(values.data_ptr()) + head * offsets;
    float* to = out.data() + head * 2 * rows;
    for (int64_t offset = 0; offset < rows; ++offset)
      to[rows - 1 - offset] = from[std::min(offset, offsets - 1)];
  }
}

void FusedAttention::read_tables(const FusedProgram& /*program*/) {
  if (options_.position_bias) spread_offsets(*options_.position_bias, rows_, bias_);
}

const float* FusedAttention::bias_of(int64_t head) const {
  return bias_.empty() ? nullptr : bias_.data() + head * 2 * rows_;
}

AttentionTask FusedAttention::task(const FusedGroup& group, int64_t sequence, int64_t head) const {
  const FusedHeads& h = options_.heads;
  const FusedMatrix qkv = group.matrix(h.qkv), out = group.matrix(options_.out);
  const int64_t row = sequence * rows_, served = serving_head(head, h.query.heads, h.key.heads);
  return {.sees = options_.sees.tokens(group.inputs().begins, row, group.inputs().pass->window_share),
          .rows = rows_,
          .head_size = h.head_size,
          .scale = options_.scale,
          .q = qkv.at(row, h.column(h.query, head)),
          .k = qkv.at(row, h.column(h.key, served)),
          .v = qkv.at(row, h.column(h.value, served)),
          .stride = qkv.stride,
          .out = out.at(row, head * h.head_size),
          .out_stride = out.stride,
          .log_sums = group.floats(options_.log_sums) + row * h.query.heads + head * rows_,
          .bias = bias_of(head),
          .drop = group.drop(options_.dropout, dropout_call_),
          .drop_row = ((group.inputs().sequence + sequence) * h.query.heads + head) * rows_};
}

AttentionTask FusedAttention::backward_task(const FusedGroup& group, int64_t sequence, int64_t head) const {
  const FusedHeads& h = options_.heads;
  const FusedMatrix d_qkv = group.matrix(h.d_qkv);
  const int64_t row = sequence * rows_, served = serving_head(head, h.query.heads, h.key.heads);
  AttentionTask own = task(group, sequence, head);
  own.d_out = group.matrix(options_.d_out).at(row, head * h.head_size);
  own.dq = d_qkv.at(row, h.column(h.query, head));
  own.dk = d_qkv.at(row, h.column(h.key, served));
  own.dv = d_qkv.at(row, h.column(h.value, served));
  if (options_.position_bias) own.d_bias = group.sums_at(bias_sums_) + head * 2 * rows_;
  return own;
}

void FusedAttention::forward(FusedGroup& group, const FusedPart& part) const {
  const int64_t heads = options_.heads.query.heads;
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
  const FusedMatrix d_qkv = group.matrix(h.d_qkv);
  const int64_t together = h.query.heads / h.key.heads, sums = key_sums(rows_);
  clear_columns(d_qkv, h.end(h.query), h.key.column, part.first, part.rows);
  clear_columns(d_qkv, h.end(h.key), h.value.column, part.first, part.rows);
  clear_columns(d_qkv, h.end(h.value), d_qkv.columns, part.first, part.rows);
  group.team().each(h.key.heads, [&](int64_t key_head, int member) {
    auto* memory = static_cast<float*>(group.member_scratch(member));
    for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
      std::fill_n(memory, 2 * sums, 0.0F);
      for (int64_t head = key_head * together; head < (key_head + 1) * together; ++head) {
        AttentionTask own = backward_task(group, sequence, head);
        own.key_sums = memory;
        own.value_sums = memory + sums;
        own.scratch = memory + 2 * sums;
        group.kernels().attend_backward(own);
      }
    }
  });
}

void FusedAttention::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  if (!options_.position_bias) return;
  results[bias_place_] = at::zeros_like(options_.position_bias->tensor.detach());
  slots.add_offsets(bias_sums_, rows_, mean, results[bias_place_]);
}

}  // namespace bridle
