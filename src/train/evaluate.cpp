// Means over all targets of a source.
#include <ATen/core/grad_mode.h>

#include "bridle/train.h"

namespace bridle {

EvaluationResult evaluate(const Model& model, const std::shared_ptr<const Source>& source,
                          const EvaluateOptions& options, const OnProgress& progress) {
  const at::NoGradGuard no_gradients;
  const Evaluation batches(source, options.order);
  EvaluationResult result;
  Pass pass{.dtype = options.dtype,
            .window_share = options.window_share,
            .statistics = options.statistics ? &result.statistics : nullptr};
  double loss = 0.0;
  double right = 0.0;
  for (int64_t i = 0; i < batches.size(); ++i) {
    const Batch batch = batches[i].to(model.device());
    const auto targets = static_cast<double>(batch.targets.numel());
    const LossAndGradients own = loss_only(model, batch, pass);
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
