#include "nn/fused_pass.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "bridle/error.h"

namespace bridle {
namespace {

using Clock = std::chrono::steady_clock;

void check_range(const char* what, const at::Tensor& ids, int64_t end) {
  const auto* values = static_cast<const int64_t*>(ids.data_ptr());
  const int64_t* last = values + ids.numel();
  const int64_t* bad = std::find_if(values, last, [end](int64_t v) { return v < 0 || v >= end; });
  if (bad != last)
    throw InputError("forward", fmt::format("{} must be from 0 to {}, got {}", what, end - 1, *bad));
}

// Of every row of the padded sequences [B, rows]; rows of padding go on with the last document.
std::vector<int32_t> begins_of(const at::Tensor& tokens, int64_t document_token, int64_t rows) {
  std::vector<int32_t> begins(static_cast<size_t>(tokens.size(0) * rows));
  const auto* values = static_cast<const int64_t*>(tokens.data_ptr());
  const int64_t length = tokens.size(1);
  for (int64_t sequence = 0; sequence < tokens.size(0); ++sequence) {
    int32_t begin = 0;
    for (int64_t t = 0; t < rows; ++t) {
      if (t < length && values[sequence * length + t] == document_token) begin = static_cast<int32_t>(t);
      begins[static_cast<size_t>(sequence * rows + t)] = begin;
    }
  }
  return begins;
}

}  // namespace

LossAndGradients FusedPass::run_tokens(const at::Tensor& tokens, const at::Tensor& targets,
                                       const ModelShape& shape, const Vocabulary& vocabulary, Pass& pass,
                                       bool gradients) {
  if (tokens.dim() != 2 || tokens.numel() == 0 || targets.sizes() != tokens.sizes() ||
      tokens.scalar_type() != at::kLong || targets.scalar_type() != at::kLong)
    throw InputError(
        "forward",
        fmt::format("tokens and targets must both be [B, T] of int64 and not empty, got [{}] and [{}]",
                    fmt::join(tokens.sizes(), ", "), fmt::join(targets.sizes(), ", ")));
  const at::Tensor inputs = tokens.contiguous(), labels = targets.contiguous();
  check_range("a token", inputs, vocabulary.size);
  check_range("a target", labels, shape.outputs);
  const int64_t length = inputs.size(1);
  const auto* in = static_cast<const int64_t*>(inputs.data_ptr());
  const auto* out = static_cast<const int64_t*>(labels.data_ptr());
  const FusedShape cut = program_->shape_of(inputs.size(0), length);
  std::vector<int32_t> begins;
  if (vocabulary.document_token >= 0) begins = begins_of(inputs, vocabulary.document_token, cut.rows);
  const auto at = [&](int64_t sequence) {
    return FusedInputs{.tokens = in + sequence * length,
                       .targets = out + sequence * length,
                       .begins = begins.empty() ? nullptr : begins.data() + sequence * cut.rows,
                       .pass = &pass,
                       .sequence = sequence};
  };
  return run(cut, at, static_cast<double>(labels.numel()), pass, gradients);
}

// The whole batch is one sequence, which all threads share.
LossAndGradients FusedPass::run_vectors(const at::Tensor& vectors, const at::Tensor& targets,
                                        const ModelShape& shape, Pass& pass, bool gradients) {
  if (vectors.dim() != 2 || vectors.size(1) != shape.size || vectors.size(0) == 0)
    throw InputError("forward", fmt::format("inputs must be [B, {}] and not empty, got [{}]", shape.size,
                                            fmt::join(vectors.sizes(), ", ")));
  const int64_t count = vectors.size(0);
  if (targets.dim() != 1 || targets.numel() != count || targets.scalar_type() != at::kLong)
    throw InputError("forward", fmt::format("targets must be [{}] of int64, got [{}]", count,
                                            fmt::join(targets.sizes(), ", ")));
  const at::Tensor inputs = vectors.contiguous(), labels = targets.contiguous();
  check_range("a target", labels, shape.outputs);
  const FusedShape whole{
      .batch = 1, .length = count, .rows = padded(count), .group = 1, .shared = true, .slots = 1};
  const auto at = [&](int64_t) {
    return FusedInputs{.vectors = static_cast<const float*>(inputs.data_ptr()),
                       .targets = static_cast<const int64_t*>(labels.data_ptr()),
                       .pass = &pass};
  };
  return run(whole, at, static_cast<double>(count), pass, gradients);
}

// Memory for a step serves evaluation too; the other way round there is too little.
void FusedPass::prepare(const FusedShape& shape, const Team& team, bool gradients) {
  const bool same = shape == shape_ && team.threads() == threads_ && (holds_gradients_ || !gradients);
  if (!same) {
    shape_ = {};  // if anything below fails, the next run begins here again
    groups_.clear();
    sums_.clear();
    program_->set_rows(shape.rows);
    threads_ = team.threads();
    const int own = shape.shared ? 1 : threads_;
    for (int i = 0; i < own; ++i)
      groups_.push_back(
          std::make_unique<FusedGroup>(*program_, shape, shape.shared ? team : Team(1), gradients));
    shape_ = shape;
    holds_gradients_ = gradients;
  }
  while (gradients && static_cast<int64_t>(sums_.size()) < shape.slots)
    sums_.push_back(std::make_unique<FusedSums>(*program_));
  for (const auto& sums : sums_) sums->start();
  program_->pack(team);
}

LossAndGradients FusedPass::run(const FusedShape& shape, const InputsAt& inputs, double targets, Pass& pass,
                                bool with_gradients) {
  const std::lock_guard lock(mutex_);
  const auto start = Clock::now();
  const Team team = team_of_all();
  prepare(shape, team, with_gradients);
  const std::vector<int64_t> bounds = shape.bounds();
  std::vector<FusedGroup::Loss> losses(bounds.size() - 1);
  for (const auto& group : groups_) group->start();
  run_in_slots(shape.shared ? Team(1) : team, std::ssize(losses), shape.slots,
               [&](int64_t task, int64_t slot, int member) {
                 const int64_t first = bounds[static_cast<size_t>(task)];
                 const int64_t count = bounds[static_cast<size_t>(task) + 1] - first;
                 losses[static_cast<size_t>(task)] = groups_[static_cast<size_t>(member)]->run(
                     inputs(first), count, with_gradients ? sums_[static_cast<size_t>(slot)].get() : nullptr);
               });
  LossAndGradients result;
  for (const FusedGroup::Loss& loss : losses) {
    result.loss += loss.loss;
    result.accuracy += static_cast<double>(loss.hits);
  }
  result.loss /= targets;
  result.accuracy /= targets;
  if (with_gradients) result.gradients = gradients(team, targets);
  if (pass.training) pass.dropout_calls += program_->dropout_calls();
  for (const auto& group : groups_)
    if (pass.statistics != nullptr)
      for (const auto& [name, layer] : group->statistics()) pass.statistics->include(name, layer);
  if (pass.times != nullptr) {
    double forward = 0.0, backward = 0.0;
    for (const auto& group : groups_) {
      forward += group->forward_seconds;
      backward += group->backward_seconds;
    }
    const double wall = std::chrono::duration<double>(Clock::now() - start).count();
    const double share = with_gradients && forward + backward > 0.0 ? forward / (forward + backward) : 1.0;
    pass.times->forward += share * wall;
    pass.times->backward += (1.0 - share) * wall;
  }
  return result;
}

std::vector<at::Tensor> FusedPass::gradients(const Team& team, double targets) const {
  std::vector<at::Tensor> results(program_->params().size());
  const FusedSlots slots(sums_, team);
  const auto mean = static_cast<float>(1.0 / targets);
  for (const auto& operation : program_->operations()) operation->gradients(slots, mean, results);
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined())
      throw std::logic_error("no operation gives the gradient of " + program_->params()[i].name);
  return results;
}

FusedPass& FusedPasses::of(ValueType values) {
  const auto i = static_cast<size_t>(values);
  std::call_once(made_[i], [&] { passes_[i] = std::make_unique<FusedPass>(make_(step_kernels(values))); });
  return *passes_[i];
}

std::optional<ValueType> fused_values(const Pass& pass) {
  const auto& [dtype, training, window_share, margin, dropout_key, statistics, dropout_calls, times, cache,
               begins] = pass;
  if (cache != nullptr) return std::nullopt;
  if (dtype == at::kBFloat16) return ValueType::bfloat16;
  if (dtype == at::kFloat) return ValueType::float32;
  return std::nullopt;
}

std::string why_not_fused_pass(const Pass& pass) {
  if (fused_values(pass)) return {};
  return pass.cache != nullptr ? "keys and values are kept" : "activations are neither bfloat16 nor float32";
}

}  // namespace bridle
