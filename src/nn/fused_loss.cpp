#include "nn/fused_loss.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <functional>

#include "nn/fused_group.h"
#include "nn/fused_norm.h"

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;
constexpr int64_t kPartRows = 256;
constexpr int64_t kLogitElements = 1 << 26;  // of a chunk of logits

}  // namespace

FusedLoss::FusedLoss(FusedProgram& program, FusedLossOptions options)
    : options_(std::move(options)),
      weight_(program.kernels(), {options_.head.tensor}, options_.left, options_.outputs,
              static_cast<bool>(options_.in.gradient)),
      value_bytes_(program.kernels().value_bytes()),
      head_place_(program.place_of(options_.head)),
      scale_(options_.scale),
      sums_(program.sums(weight_.sums(), /*from_zero=*/false)) {
  if (options_.learned_scale) scale_place_ = program.place_of(*options_.learned_scale);
  if (!options_.bias) return;
  bias_place_ = program.place_of(*options_.bias);
  bias_.assign(static_cast<size_t>(weight_.out()), 0.0F);
  bias_sums_ = program.sums(weight_.out(), /*from_zero=*/true);
}

FusedOperation::Uses FusedLoss::uses() const {
  const FusedValue& in = options_.in;
  return {.forward = {in.values}, .backward = {in.values, in.gradient, in.slope, in.stream}};
}

int64_t FusedLoss::chunk_rows(int64_t rows) const {
  const int64_t most = std::max(kGradientDepth, kLogitElements / weight_.out() / kPartRows * kPartRows);
  return std::min(rows, most);
}

int64_t FusedLoss::scratch(const FusedShape& shape) const {
  const int64_t rows = chunk_rows(shape.group * shape.rows);
  return Arena::size_of<float>(rows * weight_.out()) +
         Arena::size_of<std::byte>(rows * FusedMatrix::stride_of(weight_.out()) * value_bytes_);
}

void FusedLoss::read_tables(const FusedProgram& /*program*/) {
  if (options_.learned_scale) scale_ = options_.learned_scale->tensor.item<float>();
  if (!options_.bias) return;
  const at::Tensor values = options_.bias->tensor.detach().contiguous();
  std::copy_n(static_cast<const float*>(values.data_ptr()), values.numel(), bias_.begin());
}

void FusedLoss::cross_entropy(FusedGroup& group, const Chunk& chunk) const {
  const FusedShape& shape = group.shape();
  const int64_t columns = weight_.out();
  const size_t biases = bias_.size();
  std::vector<LossTask> tasks;
  std::vector<float> d_bias;  // of each task, added up in their order
  if (group.sums() != nullptr)
    d_bias.assign(static_cast<size_t>((chunk.rows + kBlock - 1) / kBlock) * biases, 0.0F);
  for (int64_t row = chunk.top; row < chunk.top + chunk.rows; row += kBlock) {
    const int64_t sequence = row / shape.rows, position = row % shape.rows;
    tasks.push_back({.logits = chunk.logits + (row - chunk.top) * columns,
                     .stride = columns,
                     .rows = kBlock,
                     .tokens = std::clamp<int64_t>(shape.length - position, 0, kBlock),
                     .classes = options_.outputs,
                     .columns = columns,
                     .targets = group.inputs().targets + sequence * shape.length + position,
                     .margin = static_cast<float>(group.inputs().pass->margin),
                     .bias = biases == 0 ? nullptr : bias_.data(),
                     .soft_cap = options_.soft_cap,
                     .d_bias = d_bias.empty() ? nullptr : d_bias.data() + tasks.size() * biases,
                     .gradient = group.sums() == nullptr ? nullptr : chunk.d_logits.row(row - chunk.top),
                     .gradient_stride = chunk.d_logits.stride});
  }
  group.team().each(std::ssize(tasks),
                    [&](int64_t i, int) { group.kernels().cross_entropy(tasks[static_cast<size_t>(i)]); });
  for (const LossTask& task : tasks) {
    group.add_loss(task.loss, task.hits);
    if (!group.wants_statistics() || task.tokens == 0) continue;
    const auto seen = largest_of(task.logits, task.tokens, task.stride, task.classes);
    group.record(options_.name, seen.largest_rms, seen.largest_entry);
  }
  if (d_bias.empty()) return;
  float* sums = group.sums_at(bias_sums_);
  for (auto from = d_bias.cbegin(); from != d_bias.cend(); from += static_cast<int64_t>(biases))
    std::transform(from, from + static_cast<int64_t>(biases), sums, sums, std::plus<>());
}

// The head's gradient and that of its input.
void FusedLoss::back(FusedGroup& group, const Chunk& chunk) const {
  const FusedMatrix in = group.matrix(options_.in.values);
  const FusedMatrix seen{in.row(chunk.top), in.columns, in.stride, in.value_bytes};
  if (options_.in.gradient) {
    LinearTask task = group.task_for(options_.in, scale_);
    task.out = group.products().moved_down(task.out, chunk.top * task.out_stride);
    task.slope = group.products().moved_down(task.slope, chunk.top * task.out_stride);
    if (task.stream != nullptr) task.stream += chunk.top * task.stream_stride;
    group.products().linear(weight_, FusedProducts::Way::backward, chunk.d_logits, task, 0, chunk.rows);
  }
  const bool in_is_left = options_.left == FusedWeight::Left::in;
  group.products().add_gradient(in_is_left ? seen : chunk.d_logits, in_is_left ? chunk.d_logits : seen,
                                chunk.rows, group.sums_at(sums_), !group.sums()->empty || chunk.top > 0);
}

// All rows of the group at once, whatever the part: the last operation is a segment of its own.
void FusedLoss::forward(FusedGroup& group, const FusedPart& part) const {
  if (part.sequence > 0) return;
  const int64_t rows = chunk_rows(group.shape().group * group.shape().rows), columns = weight_.out();
  auto* logits = static_cast<float*>(group.scratch());
  std::byte* gradients = static_cast<std::byte*>(group.scratch()) + Arena::size_of<float>(rows * columns);
  const FusedMatrix in = group.matrix(options_.in.values);
  for (int64_t top = 0; top < group.rows(); top += rows) {
    const Chunk chunk{top,
                      std::min(rows, group.rows() - top),
                      logits,
                      {gradients, columns, FusedMatrix::stride_of(columns), value_bytes_}};
    const FusedMatrix seen{in.row(top), in.columns, in.stride, in.value_bytes};
    group.products().linear(
        weight_, FusedProducts::Way::forward, seen,
        {.epilogue = Epilogue::logits, .factor = scale_, .stream = logits, .stream_stride = columns}, 0,
        chunk.rows);
    cross_entropy(group, chunk);
    if (group.sums() != nullptr) back(group, chunk);
  }
}

void FusedLoss::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  const at::Tensor head = options_.head.tensor.detach();
  at::Tensor own = head.size(0) == options_.outputs ? at::empty_like(head) : at::zeros_like(head);
  weight_.unpack(slots.team(), slots.at(sums_), options_.learned_scale ? mean : scale_ * mean,
                 {own.narrow(0, 0, options_.outputs)});
  if (options_.learned_scale) {  // of s·W·x: what W·x gets, along W
    results[scale_place_] = own.mul(head).sum().view(options_.learned_scale->tensor.sizes());
    own.mul_(scale_);
  }
  at::Tensor& out = results[head_place_];
  out = out.defined() ? out.add_(own) : own;  // a head that is the embedding has both gradients
  if (!options_.bias) return;
  results[bias_place_] = at::zeros_like(options_.bias->tensor.detach());
  slots.add_rows(bias_sums_, weight_.out(), mean, results[bias_place_].unsqueeze(0));
}

}  // namespace bridle
