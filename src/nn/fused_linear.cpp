#include "nn/fused_linear.h"

#include <ATen/ops/empty_like.h>

#include <stdexcept>

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
      weight_(tensors_of(options_.weights), options_.left, 0, static_cast<bool>(options_.in.gradient)),
      sums_(program.sums(weight_.sums(), /*from_zero=*/false)) {
  for (const Param& param : options_.weights) places_.push_back(program.place_of(param));
}

FusedOperation::Uses FusedLinear::uses() const {
  const FusedLinearOptions& o = options_;
  return {.forward = {o.in.values, o.out, o.slope, o.stream},
          .backward = {o.in.values, o.in.gradient, o.in.slope, o.in.stream, o.d_out}};
}

void FusedLinear::forward(FusedGroup& group, const FusedPart& part) const {
  const FusedMatrix out = group.matrix(options_.out);
  LinearTask task{.factor = options_.factor, .out = out.data, .out_stride = out.stride};
  if (options_.slope) {
    task.epilogue = Epilogue::activate;
    task.slope = group.matrix(options_.slope).data;
    task.activation = options_.activation;
    task.share = options_.share;
  } else if (options_.stream) {
    task.epilogue = Epilogue::residual;
    task.stream = group.floats(options_.stream);
    task.stream_stride = out.columns;
    task.keep = options_.keep;
  }
  group.products().linear(weight_, FusedProducts::Way::forward, group.matrix(options_.in.values), task, part.first,
                          part.rows);
}

void FusedLinear::backward(FusedGroup& group, const FusedPart& part) const {
  if (!options_.in.gradient) return;
  group.products().linear(weight_, FusedProducts::Way::backward, group.matrix(options_.d_out),
                          group.task_for(options_.in, options_.factor), part.first, part.rows);
}

void FusedLinear::add_gradients(FusedGroup& group) const {
  const FusedMatrix in = group.matrix(options_.in.values), d_out = group.matrix(options_.d_out);
  const bool in_is_left = options_.left == FusedWeight::Left::in;
  group.products().add_gradient(in_is_left ? in : d_out, in_is_left ? d_out : in, group.rows(),
                                group.sums_at(sums_), !group.sums()->empty);
}

void FusedLinear::gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const {
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < places_.size(); ++i)
    parts.push_back(results[places_[i]] = at::empty_like(options_.weights[i].tensor.detach()));
  weight_.unpack(slots.team(), slots.at(sums_), options_.factor * mean, parts);
}

FusedValue activated(FusedBuffer values, FusedBuffer gradient, FusedBuffer slope, ActivationKind kind,
                     float share) {
  FusedValue value{.values = values, .gradient = gradient, .slope = slope};
  switch (kind) {
    case ActivationKind::gelu:
    case ActivationKind::gelu_tanh:
    case ActivationKind::relu:
      value.epilogue = Epilogue::times;
      return value;
    case ActivationKind::maxmin:  // its slopes say only which pairs changed places
      value.epilogue = Epilogue::unsort;
      value.gain = share;
      return value;
  }
  throw std::logic_error("an activation without a way back");
}

}  // namespace bridle
