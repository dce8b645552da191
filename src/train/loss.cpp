// Forward, loss and backward in one call: the model's fused pass where it has one, and its plain twin on LibTorch's autograd.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/stopwatch.h"
#include "bridle/train.h"

namespace bridle {

LossAndGradients loss_and_gradients(const Model& model, const Batch& given, Pass& pass) {
  const Batch batch = given.to(model.device());
  if (auto fused = model.fused_loss(batch.inputs, batch.targets, pass, /*gradients=*/true))
    return *std::move(fused);
  Stopwatch watch(pass.times);
  const at::Tensor logits = model.forward(batch.inputs, pass);
  const at::Tensor flat = logits.reshape({-1, logits.size(-1)});
  const at::Tensor targets = batch.targets.reshape({-1});
  at::Tensor judged = flat.scalar_type() == at::kDouble ? flat : flat.to(at::kFloat);
  if (pass.margin != 0.0)
    judged = judged.scatter_add(1, targets.unsqueeze(1),
                                at::full({targets.numel(), 1}, -pass.margin, judged.options()));
  const at::Tensor loss = at::cross_entropy_loss(judged, targets);
  watch.lap(&PhaseTimes::forward);
  std::vector<at::Tensor> weights;
  for (const Param& param : model.params()) weights.push_back(param.tensor);
  LossAndGradients result;
  result.gradients = torch::autograd::grad({loss}, weights, {}, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!result.gradients[i].defined()) result.gradients[i] = weights[i].detach().mul(0.0);
  }
  watch.lap(&PhaseTimes::backward);
  result.loss = loss.item<double>();
  result.accuracy = flat.detach().argmax(-1).eq(targets).to(at::kDouble).mean().item<double>();
  watch.lap(&PhaseTimes::forward);
  return result;
}

}  // namespace bridle
