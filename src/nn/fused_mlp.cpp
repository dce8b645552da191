// See fused_mlp.h.
#include "nn/fused_mlp.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;
using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

// An allow-list over every field of the options and of the pass, as FusedModel's.
std::string FusedMlp::why_not(const MlpOptions& options, const Pass& pass) {
  const auto& [hidden_sizes, layer_sizes, activation, input_bound, initialization, final_scale] = options;
  const auto& [dtype, training, margin, dropout_key, statistics, dropout_calls, times, cache] = pass;
  const bool known_activation = activation == ActivationKind::relu || activation == ActivationKind::maxmin;
  const std::pair<bool, const char*> obstacles[] = {
      {dtype != at::kBFloat16, "training.precision is not bfloat16"},
      {statistics != nullptr, "statistics of activations are recorded"},
      {cache != nullptr, "keys and values are kept"},
      {!known_activation, "model.mlp_activation has no fused form"}};
  for (const auto& [is_there, what] : obstacles)
    if (is_there) return what;
  return {};
}

FusedMlp::FusedMlp(const MlpOptions& options, const std::vector<Param>& params, const StepKernels& kernels)
    : options_(options), params_(params), kernels_(kernels) {
  if (const std::string why = why_not(options_, {.dtype = at::kBFloat16}); !why.empty())
    throw std::logic_error("there is no fused pass: " + why);
  int64_t bytes = 0;
  for (const Param& param : params_) {
    layers_.push_back({.weight = FusedWeight({param.tensor}, FusedWeight::Left::out)});
    bytes += layers_.back().weight.bytes() + Arena::size_of<float>(layers_.back().weight.sums());
  }
  packed_.reserve(bytes);
  for (Layer& layer : layers_) {
    layer.weight.take(packed_);
    layer.sums = packed_.take<float>(layer.weight.sums());
  }
}

void FusedMlp::prepare(int64_t images) {
  const Team team = team_of_all();
  if (ops_ && ops_->team().threads() == team.threads() && rows_ == padded(images)) return;
  ops_ = nullptr;  // if anything below fails, the next run begins here again
  rows_ = padded(images);
  int64_t most = 0;
  for (const Layer& layer : layers_) most = std::max(most, layer.weight.out());
  int64_t bytes = 0;
  const auto visit = [&](const auto& place) {
    const auto matrix = [&](FusedMatrix& m, int64_t columns) {
      m.columns = columns;
      m.stride = FusedMatrix::stride_of(columns);
      place(m.data, rows_ * m.stride);
    };
    for (Layer& layer : layers_) {
      matrix(layer.in, layer.weight.in());
      matrix(layer.slope, layer.weight.in());
      matrix(layer.d_out, layer.weight.out());
    }
    place(logits_, rows_ * layers_.back().weight.out());
  };
  visit([&]<class T>(T*&, int64_t count) { bytes += Arena::size_of<T>(count); });
  memory_.reserve(bytes);
  visit([&]<class T>(T*& pointer, int64_t count) { pointer = memory_.take<T>(count); });
  ops_ = std::make_unique<FusedOps>(kernels_, team, most);
}

void FusedMlp::pack() const {
  for (const Layer& layer : layers_) {
    constexpr int64_t together = 8;
    const bool is_first = &layer == layers_.data();  // pixels have no gradient
    const int64_t pieces = is_first ? layer.weight.out() / kBlock : layer.weight.pack_pieces();
    ops_->team().each((pieces + together - 1) / together, [&](int64_t item, int) {
      for (int64_t i = item * together; i < std::min(pieces, (item + 1) * together); ++i)
        layer.weight.pack_piece(i, kernels_);
    });
  }
}

void FusedMlp::forward(const at::Tensor& pixels) {
  const FusedMatrix& first = layers_.front().in;
  const at::Tensor whole = pixels.size(1) == first.columns
                               ? pixels.contiguous()
                               : at::constant_pad_nd(pixels, {0, first.columns - pixels.size(1)});
  const auto* from = static_cast<const float*>(whole.data_ptr());
  const int64_t images = pixels.size(0);
  ops_->team().each(rows_ / kBlock, [&](int64_t part, int) {
    const int64_t row = part * kBlock, count = std::clamp<int64_t>(images - row, 0, kBlock);
    kernels_.narrow(from + row * first.columns, first.columns, count, first.row(row), first.stride);
    std::fill(first.row(row + count), first.row(row + kBlock), Bfloat16{0});
  });
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    LinearTask task{.epilogue = Epilogue::logits,
                    .factor = static_cast<float>(options_.final_scale),
                    .stream = logits_,
                    .stream_stride = layer.weight.out()};
    if (!is_last(layer)) {
      const Layer& next = layers_[i + 1];
      task = {.epilogue = Epilogue::activate,
              .out = next.in.data,
              .slope = next.slope.data,
              .out_stride = next.in.stride,
              .activation = options_.activation};
    }
    ops_->linear(layer.weight, FusedOps::Way::forward, layer.in, task, 0, rows_);
  }
}

// Means over the images; the gradient of the logits, times their number, stands in the last layer's d_out.
LossAndGradients FusedMlp::loss(const at::Tensor& targets, double margin, bool gradients) {
  const Layer& last = layers_.back();
  const int64_t images = targets.numel(), classes = params_.back().tensor.size(0);
  std::vector<LossTask> tasks;
  for (int64_t row = 0; row < rows_; row += kBlock)
    tasks.push_back({.logits = logits_ + row * last.weight.out(),
                     .stride = last.weight.out(),
                     .rows = kBlock,
                     .tokens = std::clamp<int64_t>(images - row, 0, kBlock),
                     .classes = classes,
                     .columns = last.weight.out(),
                     .targets = static_cast<const int64_t*>(targets.data_ptr()) + row,
                     .margin = static_cast<float>(margin),
                     .gradient = gradients ? last.d_out.row(row) : nullptr,
                     .gradient_stride = last.d_out.stride});
  LossAndGradients result;
  for (LossTask& task : tasks) {
    kernels_.cross_entropy(task);
    result.loss += task.loss;
    result.accuracy += static_cast<double>(task.hits);
  }
  result.loss /= static_cast<double>(images);
  result.accuracy /= static_cast<double>(images);
  return result;
}

void FusedMlp::backward() {
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    ops_->add_gradient(layer.d_out, layer.in, rows_, layer.sums, false);
    if (i == 0) continue;
    const Layer& before = layers_[i - 1];
    ops_->linear(
        layer.weight, FusedOps::Way::backward, layer.d_out,
        {.epilogue = options_.activation == ActivationKind::maxmin ? Epilogue::unsort : Epilogue::times,
         .factor = is_last(layer) ? static_cast<float>(options_.final_scale) : 1.0F,
         .out = before.d_out.data,
         .slope = layer.slope.data,
         .out_stride = before.d_out.stride},
        0, rows_);
  }
}

LossAndGradients FusedMlp::run(const at::Tensor& pixels, const at::Tensor& targets, const Pass& pass,
                               bool gradients) {
  const std::lock_guard lock(mutex_);
  const at::Tensor labels = targets.contiguous();
  const int64_t size = params_.front().tensor.size(1), classes = params_.back().tensor.size(0);
  if (pixels.dim() != 2 || pixels.size(1) != size || pixels.size(0) == 0)
    throw InputError("forward", fmt::format("images [{}] for a model that takes {} numbers each",
                                            fmt::join(pixels.sizes(), ", "), size));
  if (labels.dim() != 1 || labels.numel() != pixels.size(0) || labels.scalar_type() != at::kLong)
    throw InputError("forward", fmt::format("targets [{}] for {} images: one int64 each",
                                            fmt::join(targets.sizes(), ", "), pixels.size(0)));
  const auto* label = static_cast<const int64_t*>(labels.data_ptr());
  const auto* bad =
      std::find_if(label, label + labels.numel(), [&](int64_t t) { return t < 0 || t >= classes; });
  if (bad != label + labels.numel())
    throw InputError("forward", fmt::format("target {} is none of the {} classes", *bad, classes));
  const auto start = Clock::now();
  prepare(pixels.size(0));
  pack();
  forward(pixels);
  LossAndGradients result = loss(labels, pass.margin, gradients);
  const auto middle = Clock::now();
  if (gradients) {
    backward();
    for (const Layer& layer : layers_) {
      const size_t i = static_cast<size_t>(&layer - layers_.data());
      const double scale =
          (is_last(layer) ? options_.final_scale : 1.0) / static_cast<double>(labels.numel());
      result.gradients.push_back(at::empty_like(params_[i].tensor.detach()));
      layer.weight.unpack(ops_->team(), {layer.sums}, static_cast<float>(scale), {result.gradients.back()});
    }
  }
  if (pass.times != nullptr) {
    pass.times->forward += seconds_between(start, middle);
    pass.times->backward += seconds_between(middle, Clock::now());
  }
  return result;
}

}  // namespace bridle
