// Cross-entropy of classes; of numbers (regression) the mean square.
// Forward, loss and backward in one call: the model's fused pass where it has one, and its plain twin on LibTorch's autograd.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/stopwatch.h"
#include "bridle/train.h"

namespace bridle {
namespace {

// Logits [N, C] as they are, and their mean cross-entropy, in float32 or wider, with the margin taken off the right one.
struct Judged {
  at::Tensor logits, targets, loss;

  Judged(const Model& model, const Batch& batch, Pass& pass) {
    const at::Tensor all = model.forward(batch.inputs, pass);
    logits = all.reshape({-1, all.size(-1)});
    if (batch.targets.is_floating_point()) {
      targets = batch.targets;
      loss = at::mse_loss(logits.to(at::kFloat), targets);
      return;
    }
    targets = batch.targets.reshape({-1});
    at::Tensor wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
    if (pass.margin != 0.0)
      wide = wide.scatter_add(1, targets.unsqueeze(1),
                              at::full({targets.numel(), 1}, -pass.margin, wide.options()));
    loss = at::cross_entropy_loss(wide, targets);
  }

  LossAndGradients result() const {
    // Targets have variance 1: what is left of it is explained.
    if (targets.is_floating_point())
      return {.loss = loss.item<double>(), .accuracy = 1.0 - loss.item<double>()};
    return {.loss = loss.item<double>(),
            .accuracy = logits.detach().argmax(-1).eq(targets).to(at::kDouble).mean().item<double>()};
  }
};

std::vector<at::Tensor> gradients_of(const at::Tensor& loss, const Model& model) {
  std::vector<at::Tensor> weights;
  for (const Param& param : model.params()) weights.push_back(param.tensor);
  auto gradients = torch::autograd::grad({loss}, weights, {}, /*retain_graph=*/false,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < weights.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = weights[i].detach().mul(0.0);
  return gradients;
}

}  // namespace

LossAndGradients loss_and_gradients(const Model& model, const Batch& given, Pass& pass) {
  const Batch batch = given.to(model.device());
  if (auto fused = model.fused_loss(batch.inputs, batch.targets, pass, /*gradients=*/true))
    return *std::move(fused);
  Stopwatch watch(pass.times);
  const Judged judged(model, batch, pass);
  watch.lap(&PhaseTimes::forward);
  auto gradients = gradients_of(judged.loss, model);
  watch.lap(&PhaseTimes::backward);
  LossAndGradients result = judged.result();
  result.gradients = std::move(gradients);
  watch.lap(&PhaseTimes::forward);
  return result;
}

LossAndGradients loss_only(const Model& model, const Batch& batch, Pass& pass) {
  const at::NoGradGuard no_gradients;
  if (auto fused = model.fused_loss(batch.inputs, batch.targets, pass, /*gradients=*/false))
    return *std::move(fused);
  return Judged(model, batch, pass).result();
}

}  // namespace bridle
