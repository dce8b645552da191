// See fused_transformer.h.
#include "nn/fused_transformer.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "bridle/error.h"

namespace bridle {
namespace {

void check_range(const char* what, const int64_t* values, int64_t count, int64_t end) {
  const int64_t* bad = std::find_if(values, values + count, [end](int64_t v) { return v < 0 || v >= end; });
  if (bad != values + count)
    throw InputError("forward", fmt::format("{} {} is outside the vocabulary of {}", what, *bad, end));
}

// [rows, columns] of sums with padded rows → the tensor.
void copy_rows(const std::vector<const float*>& slots, int64_t stride, float factor, const at::Tensor& out,
               int64_t rows) {
  auto* data = static_cast<float*>(out.data_ptr());
  const int64_t columns = out.size(1);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      float sum = 0.0F;
      for (const float* slot : slots) sum += slot[row * stride + i];
      data[row * columns + i] = factor * sum;
    }
  }
}

// Sums at rows − 1 − offset → [heads, offsets], where the last offset serves all that are farther.
void copy_bias(const FusedModel& model, size_t layer, const std::vector<const float*>& slots, float factor,
               const at::Tensor& out) {
  auto* data = static_cast<float*>(out.data_ptr());
  const int64_t offsets = out.size(1), rows = model.rows;
  for (int64_t head = 0; head < out.size(0); ++head) {
    for (const float* slot : slots) {
      const float* from = slot + model.bias_at(layer, head);
      for (int64_t offset = 0; offset < rows; ++offset)
        data[head * offsets + std::min(offset, offsets - 1)] += factor * from[rows - 1 - offset];
    }
  }
}

}  // namespace

void FusedTransformer::prepare(const FusedShape& shape, const Team& team, bool gradients) {
  const bool same = shape == shape_ && team.threads() == threads_;
  if (!same) {
    shape_ = {};  // if anything below fails, the next run begins here again
    groups_.clear();
    sums_.clear();
    model_.set_length(shape.rows);
    threads_ = team.threads();
    const int own = shape.shared ? 1 : threads_;
    for (int i = 0; i < own; ++i)
      groups_.push_back(std::make_unique<FusedGroup>(model_, shape, shape.shared ? team : Team(1)));
    shape_ = shape;
  }
  while (gradients && static_cast<int64_t>(sums_.size()) < shape.slots)
    sums_.push_back(std::make_unique<FusedSums>(model_, shape.rows));
  for (const auto& sums : sums_) sums->start(model_);
  model_.pack(team);
}

LossAndGradients FusedTransformer::run(const at::Tensor& tokens, const at::Tensor& targets,
                                       bool with_gradients, PhaseTimes* times) {
  const std::lock_guard lock(mutex_);
  if (tokens.dim() != 2 || tokens.numel() == 0 || targets.sizes() != tokens.sizes() ||
      tokens.scalar_type() != at::kLong || targets.scalar_type() != at::kLong)
    throw InputError("forward",
                     fmt::format("tokens [{}] and targets [{}]: both are [B, T] of int64, and not empty",
                                 fmt::join(tokens.sizes(), ", "), fmt::join(targets.sizes(), ", ")));
  const at::Tensor inputs = tokens.contiguous(), labels = targets.contiguous();
  const auto* in = static_cast<const int64_t*>(inputs.data_ptr());
  const auto* out = static_cast<const int64_t*>(labels.data_ptr());
  check_range("token", in, inputs.numel(), model_.options.vocab_size);
  check_range("target", out, labels.numel(), model_.options.real_vocab_size);
  const int64_t batch = inputs.size(0), length = inputs.size(1);
  if (model_.positions_param && length > model_.params[*model_.positions_param].tensor.size(0))
    throw InputError(
        "forward", fmt::format("{} tokens are more than the {} positions that the model has learned", length,
                               model_.params[*model_.positions_param].tensor.size(0)));
  const auto start = std::chrono::steady_clock::now();
  const FusedShape shape = model_.shape_of(batch, length);
  const Team team = team_of_all();
  prepare(shape, team, with_gradients);
  const std::vector<int64_t> bounds = shape.bounds();
  std::vector<FusedGroup::Loss> losses(bounds.size() - 1);
  for (const auto& group : groups_) group->forward_seconds = group->backward_seconds = 0.0;
  run_in_slots(shape.shared ? Team(1) : team, std::ssize(losses), shape.slots,
               [&](int64_t task, int64_t slot, int member) {
                 const int64_t first = bounds[static_cast<size_t>(task)];
                 const int64_t count = bounds[static_cast<size_t>(task) + 1] - first;
                 FusedGroup& group = *groups_[static_cast<size_t>(member)];
                 losses[static_cast<size_t>(task)] =
                     with_gradients ? group.forward_and_backward(in + first * length, out + first * length,
                                                                 count, *sums_[static_cast<size_t>(slot)])
                                    : group.forward(in + first * length, out + first * length, count);
               });
  LossAndGradients result;
  for (const FusedGroup::Loss& loss : losses) {
    result.loss += loss.loss;
    result.accuracy += static_cast<double>(loss.hits);
  }
  const auto all = static_cast<double>(labels.numel());
  result.loss /= all;
  result.accuracy /= all;
  if (with_gradients) result.gradients = gradients(team, all);
  if (times != nullptr) {
    double forward = 0.0, backward = 0.0;
    for (const auto& group : groups_) {
      forward += group->forward_seconds;
      backward += group->backward_seconds;
    }
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double share = with_gradients && forward + backward > 0.0 ? forward / (forward + backward) : 1.0;
    times->forward += share * wall;
    times->backward += (1.0 - share) * wall;
  }
  return result;
}

std::vector<at::Tensor> FusedTransformer::gradients(const Team& team, double targets) const {
  const TransformerOptions& o = model_.options;
  const auto mean = static_cast<float>(1.0 / targets);
  std::vector<at::Tensor> result;
  for (const Param& param : model_.params) {
    const at::Tensor weight = param.tensor.detach();
    const bool whole = is_matrix(param.role) &&
                       weight.size(0) == (param.role == Role::head ? o.real_vocab_size : weight.size(0));
    result.push_back(whole ? at::empty_like(weight) : at::zeros_like(weight));
  }
  const auto slots_of = [&](auto pick) {
    std::vector<const float*> slots;
    for (const auto& sums : sums_)
      if (!sums->empty) slots.push_back(pick(*sums));
    return slots;
  };
  const auto matrix = [&](size_t index) {
    return slots_of([&](const FusedSums& s) { return s.matrices[index]; });
  };
  const float attention = model_.share(o.attention_alpha) * static_cast<float>(o.attention_output_scale);
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    const FusedLayer& layer = model_.layers[i];
    std::vector<at::Tensor> qkv;
    for (const size_t place : layer.qkv_params) qkv.push_back(result[place]);
    layer.qkv.unpack(team, matrix(4 * i), mean, qkv);
    layer.output.unpack(team, matrix(4 * i + 1), attention * mean, {result[layer.output_param]});
    layer.up.unpack(team, matrix(4 * i + 2), mean, {result[layer.up_param]});
    layer.down.unpack(team, matrix(4 * i + 3), model_.share(o.mlp_alpha) * mean, {result[layer.down_param]});
    if (layer.bias_param)
      copy_bias(model_, i, slots_of([](const FusedSums& s) { return s.bias; }), mean,
                result[*layer.bias_param]);
  }
  model_.head->unpack(team, matrix(4 * model_.layers.size()), static_cast<float>(o.final_scale) * mean,
                      {result[model_.head_param].narrow(0, 0, o.real_vocab_size)});
  copy_rows(slots_of([](const FusedSums& s) { return s.embedding; }), model_.size, mean,
            result[model_.embedding_param], o.vocab_size);
  if (model_.logit_bias_param)
    copy_rows(slots_of([](const FusedSums& s) { return s.logit_bias.data(); }), model_.classes, mean,
              result[*model_.logit_bias_param].unsqueeze(0), 1);
  if (model_.positions_param)
    copy_rows(slots_of([](const FusedSums& s) { return s.positions; }), model_.size, mean,
              result[*model_.positions_param], shape_.length);
  return result;
}

}  // namespace bridle
