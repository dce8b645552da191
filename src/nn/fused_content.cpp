#include "nn/fused_content.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "nn/content_heads.h"
#include "nn/fused_attention.h"
#include "nn/fused_group.h"

namespace bridle {
namespace {

constexpr auto kLargest = static_cast<float>(kLargestLogRange);

float entry(const Param& vector, int64_t i) { return vector.tensor.detach()[i].item<float>(); }

}  // namespace

FusedContent::FusedContent(FusedProgram& program, FusedContentOptions options)
    : options_(std::move(options)),
      value_bytes_(program.kernels().value_bytes()),
      bias_place_(program.place_of(options_.position_bias)),
      range_place_(program.place_of(options_.log_range)),
      coefficients_place_(program.place_of(options_.coefficients)),
      bias_sums_(program.sums(0, /*from_zero=*/true)),
      sums_(program.sums(2 * heads(), /*from_zero=*/true)) {}

FusedOperation::Uses FusedContent::uses() const {
  const FusedContentOptions& o = options_;
  return {.forward = {o.in.values, o.qk, o.out, o.log_sums},
          .backward = {o.in.values, o.in.gradient, o.in.stream, o.qk, o.d_qk, o.d_out, o.log_sums}};
}

int64_t FusedContent::member_scratch(const FusedShape& shape) const {
  return shape.rows * options_.content_size * int64_t{sizeof(float)} +
         attention_scratch(shape.rows, options_.content_size, value_bytes_, options_.size);
}

void FusedContent::set_rows(FusedProgram& program, int64_t rows) {
  rows_ = rows;
  program.resize_sums(bias_sums_, heads() * 2 * rows);
}

void FusedContent::read_tables(const FusedProgram& /*program*/) {
  spread_offsets(options_.position_bias, rows_, bias_);
  now_.clear();
  for (int64_t head = 0; head < heads(); ++head) {
    const float range = std::exp(std::min(entry(options_.log_range, head), kLargest));
    const float price = range + std::sqrt(1.0F + range * range);
    now_.push_back({.range = range,
                    .price = price,
                    .scale = range / static_cast<float>(options_.content_size),
                    .gain = entry(options_.coefficients, options_.first + head) / price});
  }
}

AttentionTask FusedContent::task(const FusedGroup& group, int64_t sequence, int64_t head) const {
  const FusedMatrix x = group.matrix(options_.in.values), qk = group.matrix(options_.qk),
                    out = group.matrix(options_.out);
  const int64_t row = sequence * rows_, size = options_.content_size;
  const Head& now = now_[static_cast<size_t>(head)];
  return {.sees = options_.sees.tokens(group.inputs().begins, row, group.inputs().pass->window_share),
          .rows = rows_,
          .head_size = size,
          .scale = now.scale,
          .q = qk.at(row, head * size),
          .k = qk.at(row, (heads() + head) * size),
          .v = x.row(row),
          .stride = qk.stride,
          .value_size = options_.size,
          .value_stride = x.stride,
          .gain = now.gain,
          .out = out.at(row, (options_.first + head) * options_.size),
          .out_stride = out.stride,
          .log_sums = group.floats(options_.log_sums) + row * heads() + head * rows_,
          .bias = bias_.data() + head * 2 * rows_};
}

void FusedContent::forward(FusedGroup& group, const FusedPart& part) const {
  group.team().each(part.count * heads(), [&](int64_t item, int member) {
    AttentionTask own = task(group, part.sequence + item / heads(), item % heads());
    own.scratch = group.member_scratch(member);
    group.kernels().attend(own);
  });
}

// One head after another: what they add to the tokens' gradient, and to the sums, has one order.
void FusedContent::backward(FusedGroup& group, const FusedPart& part) const {
  const FusedMatrix d_out = group.matrix(options_.d_out), d_qk = group.matrix(options_.d_qk),
                    copy = group.matrix(options_.in.gradient);
  float* stream = group.floats(options_.in.stream);
  float* sums = group.sums_at(sums_);
  auto* memory = static_cast<float*>(group.member_scratch(0));
  const int64_t size = options_.content_size;
  for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
    const int64_t row = sequence * rows_;
    for (int64_t head = 0; head < heads(); ++head) {
      AttentionTask own = task(group, sequence, head);
      std::fill_n(memory, rows_ * size, 0.0F);
      own.d_out = d_out.at(row, (options_.first + head) * options_.size);
      own.dq = d_qk.at(row, head * size);
      own.dk = d_qk.at(row, (heads() + head) * size);
      own.key_sums = memory;
      own.value_sums = stream + row * options_.size;
      own.d_bias = group.sums_at(bias_sums_) + head * 2 * rows_;
      own.d_gain = sums + head;
      own.d_scale = sums + heads() + head;
      own.scratch = memory + rows_ * size;
      group.kernels().attend_backward(own);
    }
    group.kernels().narrow(stream + row * options_.size, options_.size, rows_, copy.row(row), copy.stride);
  }
}

// The gain is c/ℓ(r), with ℓ′ = ℓ/√(1 + r²), the scale r/d_c, and r = exp(ρ), but constant where ρ is cut.
void FusedContent::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  const at::Tensor own = at::zeros({2, heads()}, at::kFloat);
  slots.add_rows(sums_, heads(), mean, own);
  const auto* d_gain = static_cast<const float*>(own.data_ptr());
  const float* d_scale = d_gain + heads();
  at::Tensor& coefficients = results[coefficients_place_];
  if (!coefficients.defined()) coefficients = at::zeros_like(options_.coefficients.tensor.detach());
  results[range_place_] = at::zeros_like(options_.log_range.tensor.detach());
  auto* d_coefficients = static_cast<float*>(coefficients.data_ptr()) + options_.first;
  auto* d_range = static_cast<float*>(results[range_place_].data_ptr());
  for (int64_t head = 0; head < heads(); ++head) {
    const Head& now = now_[static_cast<size_t>(head)];
    d_coefficients[head] += d_gain[head] / now.price;
    if (entry(options_.log_range, head) > kLargest) continue;
    const float along_gain = d_gain[head] * now.gain / std::sqrt(1.0F + now.range * now.range);
    d_range[head] = now.range * (d_scale[head] / static_cast<float>(options_.content_size) - along_gain);
  }
  results[bias_place_] = at::zeros_like(options_.position_bias.tensor.detach());
  slots.add_offsets(bias_sums_, rows_, mean, results[bias_place_]);
}

}  // namespace bridle
