#include "nn/fused_mixing.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "nn/fused_group.h"
#include "nn/mixing.h"

namespace bridle {
namespace {

constexpr auto kLargest = static_cast<float>(kLargestLogDecay);

std::vector<float> values_of(const Param& param) {
  const at::Tensor values = param.tensor.detach().contiguous();
  const auto* data = static_cast<const float*>(values.data_ptr());
  return {data, data + values.numel()};
}

}  // namespace

FusedMixing::FusedMixing(FusedProgram& program, FusedMixingOptions options)
    : options_(std::move(options)),
      value_bytes_(program.kernels().value_bytes()),
      bias_place_(program.place_of(options_.position_bias)),
      coefficients_place_(program.place_of(options_.coefficients)),
      bias_sums_(program.sums(0, /*from_zero=*/true)),
      sums_(program.sums(options_.coefficients.tensor.numel() + channels(), /*from_zero=*/true)) {
  if (options_.dropout > 0.0) dropout_call_ = program.next_dropout_call();
  if (!options_.log_decay) return;
  decay_place_ = program.place_of(*options_.log_decay);
  stays_ = program.matrix(channels());
}

FusedOperation::Uses FusedMixing::uses() const {
  const FusedMixingOptions& o = options_;
  return {.forward = {o.in.values, o.memory, o.out, stays_},
          .backward = {o.in.values, o.in.gradient, o.in.stream, o.memory, o.d_memory, o.d_out, stays_}};
}

int64_t FusedMixing::member_scratch(const FusedShape& shape) const {
  return mix_scratch(shape.rows, options_.size, value_bytes_);
}

void FusedMixing::set_rows(FusedProgram& program, int64_t rows) {
  rows_ = rows;
  exponentials_.assign(static_cast<size_t>(heads() * 2 * rows), 0.0F);
  shares_.assign(static_cast<size_t>(heads() * rows), 0.0F);
  program.resize_sums(bias_sums_, std::ssize(exponentials_));
}

// Exponentials stand at rows − 1 − offset, and the last offset serves all that are farther; shares are of so many offsets.
void FusedMixing::read_tables(const FusedProgram& /*program*/) {
  coefficients_ = values_of(options_.coefficients);
  const std::vector<float> bias = values_of(options_.position_bias);
  const int64_t offsets = options_.position_bias.tensor.size(1);
  const int64_t visible = options_.sees.offsets(rows_);
  for (int64_t head = 0; head < heads(); ++head) {
    const float* from = bias.data() + head * offsets;
    const auto at = [&](int64_t offset) { return from[std::min(offset, offsets - 1)]; };
    float most = at(0);
    for (int64_t offset = 1; offset < visible; ++offset) most = std::max(most, at(offset));
    double sum = 0.0;
    for (int64_t offset = 0; offset < rows_; ++offset) {
      const double own = offset < visible ? std::exp(static_cast<double>(at(offset) - most)) : 0.0;
      sum += own;
      exponentials_[static_cast<size_t>(head * 2 * rows_ + rows_ - 1 - offset)] = static_cast<float>(own);
      shares_[static_cast<size_t>(head * rows_ + offset)] = static_cast<float>(1.0 / std::max(sum, 1e-30));
    }
  }
  if (!options_.log_decay) return;
  decays_ = values_of(*options_.log_decay);
  for (float& decay : decays_) decay = std::exp(std::min(decay, kLargest));
}

MixTask FusedMixing::mix_task(const FusedGroup& group, int64_t sequence) const {
  const FusedMatrix x = group.matrix(options_.in.values), out = group.matrix(options_.out);
  const int64_t row = sequence * rows_;
  return {.sees = options_.sees.tokens(group.inputs().begins, row, group.inputs().pass->window_share),
          .rows = rows_,
          .size = options_.size,
          .heads = heads(),
          .x = x.row(row),
          .stride = x.stride,
          .out = out.row(row),
          .out_stride = out.stride,
          .exponentials = exponentials_.data(),
          .shares = shares_.data(),
          .coefficients = coefficients_.data()};
}

DecayTask FusedMixing::decay_task(const FusedGroup& group, int64_t sequence) const {
  const FusedMatrix v = group.matrix(options_.memory), stays = group.matrix(stays_),
                    out = group.matrix(options_.out);
  const int64_t row = sequence * rows_;
  const int32_t* begins = group.inputs().begins;
  return {.rows = rows_,
          .channels = channels(),
          .v = v.row(row),
          .stays = stays.row(row),
          .stride = v.stride,
          .out = out.at(row, memory_column()),
          .out_stride = out.stride,
          .decays = decays_.data(),
          .coefficient = coefficients_.back(),
          .begins = begins == nullptr ? nullptr : begins + row};
}

void FusedMixing::drop(const FusedGroup& group, int64_t sequence, const FusedMatrix& z) const {
  const FusedDrop drops = group.drop(options_.dropout, dropout_call_);
  if (drops.threshold == 0) return;
  const int64_t row = sequence * rows_;
  group.kernels().drop({.in = z.row(row),
                        .out = z.row(row),
                        .stride = z.stride,
                        .rows = rows_,
                        .columns = z.columns,
                        .first_row = group.inputs().sequence * rows_ + row,
                        .sequence_rows = rows_,
                        .drop = drops});
}

void FusedMixing::forward(FusedGroup& group, const FusedPart& part) const {
  group.team().each(part.count, [&](int64_t item, int member) {
    const int64_t sequence = part.sequence + item;
    MixTask own = mix_task(group, sequence);
    own.scratch = group.member_scratch(member);
    group.kernels().mix(own);
    if (channels() > 0) group.kernels().decaying_max(decay_task(group, sequence));
    drop(group, sequence, group.matrix(options_.out));
  });
}

// One sequence after another: what they add to the sums has one order.
void FusedMixing::backward(FusedGroup& group, const FusedPart& part) const {
  const FusedMatrix d_out = group.matrix(options_.d_out), copy = group.matrix(options_.in.gradient);
  float* stream = group.floats(options_.in.stream);
  float* sums = group.sums_at(sums_);
  for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
    const int64_t row = sequence * rows_;
    drop(group, sequence, d_out);
    MixTask own = mix_task(group, sequence);
    own.d_out = d_out.row(row);
    own.d_x = stream + row * options_.size;
    own.d_bias = group.sums_at(bias_sums_);
    own.d_coefficients = sums;
    own.scratch = group.member_scratch(0);
    group.kernels().mix_backward(own);
    group.kernels().narrow(own.d_x, options_.size, rows_, copy.row(row), copy.stride);
    if (channels() == 0) continue;
    DecayTask memory = decay_task(group, sequence);
    memory.d_out = d_out.at(row, memory_column());
    memory.d_v = group.matrix(options_.d_memory).row(row);
    memory.d_coefficient = sums + std::ssize(coefficients_) - 1;
    memory.d_decays = sums + std::ssize(coefficients_);
    group.kernels().decaying_max_backward(memory);
  }
}

void FusedMixing::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  const auto give = [&](const Param& param, size_t place, int64_t first) {
    if (!results[place].defined()) results[place] = at::zeros_like(param.tensor.detach());
    slots.add_rows(sums_, 0, mean, results[place].unsqueeze(0), first);
  };
  give(options_.coefficients, coefficients_place_, 0);
  if (options_.log_decay) {  // λ = exp(ρ): times λ; none where it is cut
    give(*options_.log_decay, decay_place_, std::ssize(coefficients_));
    auto* data = static_cast<float*>(results[decay_place_].data_ptr());
    const std::vector<float> log_decay = values_of(*options_.log_decay);
    for (size_t i = 0; i < decays_.size(); ++i) data[i] *= log_decay[i] <= kLargest ? decays_[i] : 0.0F;
  }
  results[bias_place_] = at::zeros_like(options_.position_bias.tensor.detach());
  slots.add_offsets(bias_sums_, rows_, mean, results[bias_place_]);
}

}  // namespace bridle
