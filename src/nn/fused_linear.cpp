#include "nn/fused_linear.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "nn/fused_group.h"

namespace bridle {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<Param>& params) {
  std::vector<at::Tensor> tensors;
  for (const Param& param : params) tensors.push_back(param.tensor);
  return tensors;
}

}  // namespace

FusedLinear::FusedLinear(FusedProgram& program, FusedLinearOptions options)
    : options_(std::move(options)),
      weight_(program.kernels(), tensors_of(options_.weights), options_.left, 0,
              static_cast<bool>(options_.in.gradient), options_.columns),
      sums_(program.sums(weight_.sums(), /*from_zero=*/false)),
      scale_(options_.scale) {
  for (const Param& param : options_.weights) places_.push_back(program.place_of(param));
  for (const Param& param : options_.biases) bias_places_.push_back(program.place_of(param));
  if (options_.learned_scale) scale_place_ = program.place_of(*options_.learned_scale);
  if (!options_.biases.empty()) {
    bias_.assign(static_cast<size_t>(weight_.out()), 0.0F);
    bias_sums_ = program.sums(weight_.out(), /*from_zero=*/true);
  }
  if (options_.alpha) {
    alpha_place_ = program.place_of(*options_.alpha);
    if (options_.before) alpha_sums_ = program.sums(weight_.out(), /*from_zero=*/true);
    if (options_.alpha->tensor.numel() > 1) d_shared_ = program.matrix(weight_.out());
  }
  if (options_.dropout > 0.0) dropout_call_ = program.next_dropout_call();
  if (options_.drop_path > 0.0) drop_path_call_ = program.next_dropout_call();
  if (options_.dropout > 0.0 || options_.drop_path > 0.0) d_kept_ = program.matrix(weight_.out());
}

FusedLinearOptions ending(const FusedEnd& end, FusedLinearOptions options) {
  options.left = FusedWeight::Left::out;
  options.factor = end.share;
  options.out = end.out;
  options.d_out = end.d_out;
  options.stream = end.stream;
  options.keep = end.keep;
  options.alpha = end.alpha;
  options.before = end.before;
  options.dropout = end.dropout;
  options.drop_path = end.drop_path;
  return options;
}

FusedOperation::Uses FusedLinear::uses() const {
  const FusedLinearOptions& o = options_;
  return {.forward = {o.in.values, o.out, o.slope, o.stream},
          .backward = {o.in.values, o.in.gradient, o.in.slope, o.in.stream, o.d_out, o.before, d_kept_,
                       d_shared_}};
}

void FusedLinear::read_tables(const FusedProgram& program) {
  factor_ = program.value(options_.factor);
  shares_ = program.columns(options_.factor);
  if (options_.learned_scale)
    scale_ = options_.learned_scale->tensor.view(-1)[options_.scale_entry].item<float>();
  for (size_t i = 0; i < options_.biases.size(); ++i) {
    const at::Tensor values = options_.biases[i].tensor.detach().contiguous();
    const auto* from = static_cast<const float*>(values.data_ptr());
    std::transform(from, from + values.numel(), bias_.begin() + weight_.first_row(i),
                   [this](float value) { return factor_ * value; });
  }
}

FusedDrop FusedLinear::drop(const FusedGroup& group) const {
  return group.drop(options_.dropout, dropout_call_);
}

FusedDrop FusedLinear::drop_path(const FusedGroup& group) const {
  return group.drop(options_.drop_path, drop_path_call_);
}

bool FusedLinear::drops(const FusedGroup& group) const {
  return drop(group).threshold != 0 || drop_path(group).threshold != 0;
}

int64_t FusedLinear::drop_row(const FusedGroup& group, int64_t row) const {
  return group.inputs().sequence * group.shape().rows + row;
}

void FusedLinear::forward(FusedGroup& group, const FusedPart& part) const {
  const FusedMatrix out = group.matrix(options_.out);
  LinearTask task{.factor = factor_ * scale_, .out = out.data, .out_stride = out.stride};
  if (!bias_.empty()) task.bias = bias_.data();
  if (options_.slope) {
    task.epilogue = Epilogue::activate;
    task.slope = group.matrix(options_.slope).data;
    task.activation = options_.activation;
    task.share = options_.share;
  } else if (options_.stream) {
    task.epilogue = Epilogue::residual;
    task.stream = group.floats(options_.stream);
    task.stream_stride = out.columns;
    task.keep = group.value(options_.keep);
    if (shares_ != nullptr) {
      task.epilogue = Epilogue::columns;
      task.keeps = group.columns(options_.keep);
      task.shares = shares_;
    }
    task.drop = drop(group);
    task.drop_path = drop_path(group);
    task.drop_row = drop_row(group, 0);
    task.sequence_rows = group.shape().rows;
  }
  group.products().linear(weight_, FusedProducts::Way::forward, group.matrix(options_.in.values), task,
                          part.first, part.rows);
}

void FusedLinear::backward(FusedGroup& group, const FusedPart& part) const {
  FusedBuffer d = options_.d_out;
  if (drops(group)) {
    drop_rows(group, part, d, d_kept_, {.drop = drop(group), .drop_path = drop_path(group)});
    d = d_kept_;
  }
  if (!options_.in.gradient) return;
  if (shares_ != nullptr) {
    drop_rows(group, part, d, d_shared_, {.shares = shares_});
    d = d_shared_;
  }
  group.products().linear(weight_, FusedProducts::Way::backward, group.matrix(d),
                          group.task_for(options_.in, factor_ * scale_), part.first, part.rows);
}

void FusedLinear::drop_rows(FusedGroup& group, const FusedPart& part, FusedBuffer in, FusedBuffer out,
                            const DropTask& what) const {
  const FusedMatrix from = group.matrix(in), to = group.matrix(out);
  constexpr int64_t rows = 64;
  group.team().each((part.rows + rows - 1) / rows, [&](int64_t item, int) {
    const int64_t row = part.first + item * rows;
    DropTask task = what;
    task.in = from.row(row);
    task.out = to.row(row);
    task.stride = from.stride;
    task.rows = std::min(rows, part.first + part.rows - row);
    task.columns = from.columns;
    task.first_row = drop_row(group, row);
    task.sequence_rows = group.shape().rows;
    group.kernels().drop(task);
  });
}

void FusedLinear::add_gradients(FusedGroup& group) const {
  const FusedMatrix in = group.matrix(options_.in.values),
                    d_out = group.matrix(drops(group) ? d_kept_ : options_.d_out);
  const bool in_is_left = options_.left == FusedWeight::Left::in;
  group.products().add_gradient(in_is_left ? in : d_out, in_is_left ? d_out : in, group.rows(),
                                group.sums_at(sums_), !group.sums()->empty);
  if (!bias_.empty()) add_columns(group, d_out, group.sums_at(bias_sums_));
  if (!options_.before) return;
  const FusedMatrix before = group.matrix(options_.before);
  add_columns(group, group.matrix(options_.d_out), group.sums_at(alpha_sums_), &before);
}

void FusedLinear::add_to_scale(const at::Tensor& gradient, std::span<at::Tensor> results) const {
  at::Tensor& whole = results[scale_place_];
  if (!whole.defined()) whole = at::zeros_like(options_.learned_scale->tensor.detach());
  whole.view(-1)[options_.scale_entry].add_(gradient);
}

at::Tensor FusedLinear::result_for(size_t part, std::span<at::Tensor> results) const {
  at::Tensor& whole = results[places_[part]];
  if (!whole.defined() || options_.columns.count == 0)
    whole = at::empty_like(options_.weights[part].tensor.detach());
  return options_.columns.of(whole);
}

// With G the gradient of f·s·W: that of W is f·s·G, of s it is f·⟨G, W⟩, and of f ⟨G, s·W⟩ + ⟨gradient of f·b, b⟩. Where f is α
// and x is kept by 1 − α, ⟨gradient, x⟩ is taken off.
void FusedLinear::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  if (shares_ != nullptr) return gradients_by_column(slots, mean, results);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < places_.size(); ++i) parts.push_back(result_for(i, results));
  const bool is_learned = options_.learned_scale || options_.alpha;
  weight_.unpack(slots.team(), slots.at(sums_), (is_learned ? 1.0F : factor_ * scale_) * mean, parts);
  at::Tensor along_weight, along_bias;
  if (is_learned) {
    along_weight = parts.front().mul(options_.columns.of(options_.weights.front().tensor.detach())).sum();
    parts.front().mul_(factor_ * scale_);
  }
  if (options_.learned_scale) add_to_scale(along_weight.mul(factor_), results);
  for (size_t i = 0; i < bias_places_.size(); ++i) {
    at::Tensor& bias = results[bias_places_[i]] = at::zeros_like(options_.biases[i].tensor.detach());
    slots.add_rows(bias_sums_, weight_.out(), mean, bias.unsqueeze(0), weight_.first_row(i));
    along_bias = bias.mul(options_.biases[i].tensor.detach()).sum();
    bias.mul_(factor_);
  }
  if (!options_.alpha) return;
  at::Tensor alpha = along_weight.mul(scale_);
  if (options_.before) {
    at::Tensor kept = at::zeros({1, weight_.out()}, at::kFloat);
    slots.add_rows(alpha_sums_, weight_.out(), mean, kept);
    alpha = alpha.sub(kept.sum());
  }
  if (along_bias.defined()) alpha = alpha.add(along_bias);
  results[alpha_place_] = alpha.view(options_.alpha->tensor.sizes());
}

// The same row by row, where f is a vector: of one weight, which ends a branch.
void FusedLinear::gradients_by_column(const FusedSlots& slots, float mean,
                                      std::span<at::Tensor> results) const {
  const at::Tensor share = options_.alpha->tensor.detach(),
                   weight = options_.columns.of(options_.weights.front().tensor.detach());
  const at::Tensor own = result_for(0, results);
  weight_.unpack(slots.team(), slots.at(sums_), mean, {own});
  const at::Tensor along_weight = own.mul(weight).sum(1);
  own.mul_(share.mul(scale_).unsqueeze(1));
  if (options_.learned_scale) add_to_scale(along_weight.mul(share).sum(), results);
  at::Tensor alpha = along_weight.mul(scale_);
  for (size_t i = 0; i < bias_places_.size(); ++i) {
    at::Tensor& bias = results[bias_places_[i]] = at::zeros_like(options_.biases[i].tensor.detach());
    slots.add_rows(bias_sums_, weight_.out(), mean, bias.unsqueeze(0));
    alpha = alpha.add(bias.mul(options_.biases[i].tensor.detach()));
    bias.mul_(share);
  }
  if (options_.before) {
    at::Tensor kept = at::zeros({1, share.size(0)}, at::kFloat);
    slots.add_rows(alpha_sums_, weight_.out(), mean, kept);
    alpha = alpha.sub(kept[0]);
  }
  results[alpha_place_] = alpha;
}

// Members take columns.
void add_columns(FusedGroup& group, const FusedMatrix& left, float* sums, const FusedMatrix* right) {
  constexpr int64_t together = 64;
  group.team().each((left.columns + together - 1) / together, [&](int64_t item, int) {
    group.kernels().add_columns({.left = left.data,
                                 .right = right == nullptr ? nullptr : right->data,
                                 .stride = left.stride,
                                 .right_stride = right == nullptr ? 0 : right->stride,
                                 .rows = group.rows(),
                                 .first = item * together,
                                 .end = std::min(left.columns, (item + 1) * together),
                                 .out = sums});
  });
}

}  // namespace bridle
