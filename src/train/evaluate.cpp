#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include "bridle/train.h"

namespace bridle {
namespace {

// Means over the batch, by the fused pass where there is one; no gradients.
LossAndGradients loss_of(const Model& model, const Batch& batch, Pass& pass) {
  if (auto fused = model.fused_loss(batch.inputs, batch.targets, pass, /*gradients=*/false))
    return *std::move(fused);
  const at::Tensor logits = model.forward(batch.inputs, pass).to(at::kFloat);
  const at::Tensor flat = logits.reshape({-1, logits.size(-1)});
  const at::Tensor targets = batch.targets.reshape({-1});
  const auto all = static_cast<double>(targets.numel());
  return {.loss = at::cross_entropy_loss(flat, targets, {}, at::Reduction::Sum).item<double>() / all,
          .accuracy = flat.argmax(-1).eq(targets).sum().item<double>() / all};
}

}  // namespace

EvaluationResult evaluate(const Model& model, const std::shared_ptr<const Source>& source,
                          const EvaluateOptions& options, const OnProgress& progress) {
  const at::NoGradGuard no_gradients;
  const Evaluation batches(source, options.order);
  EvaluationResult result;
  Pass pass{.dtype = options.dtype, .statistics = options.statistics ? &result.statistics : nullptr};
  double loss = 0.0;
  double right = 0.0;
  for (int64_t i = 0; i < batches.size(); ++i) {
    const Batch batch = batches[i].to(model.device());
    const auto targets = static_cast<double>(batch.targets.numel());
    const LossAndGradients own = loss_of(model, batch, pass);
    loss += own.loss * targets;
    right += own.accuracy * targets;
    result.targets += batch.targets.numel();
    report(progress, {.what = "evaluating", .done = i + 1, .total = batches.size(), .unit = "batches"});
  }
  result.loss = loss / static_cast<double>(result.targets);
  result.accuracy = right / static_cast<double>(result.targets);
  return result;
}

}  // namespace bridle
