// See nn_support.h.
#include "nn_support.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/mlp.h"
#include "nn/transformer.h"
#include "support.h"

namespace bridle::test {

TransformerOptions transformer_options(const Model& model) {
  return std::get<TransformerOptions>(model.options().value());
}

MlpOptions mlp_options(const Model& model) { return std::get<MlpOptions>(model.options().value()); }

void expect_gradients(const std::function<at::Tensor()>& f, const std::vector<at::Tensor>& tensors) {
  const at::Tensor first = f();
  const at::Tensor weights = normal(first.sizes(), 99);
  const auto value = [&] { return f().mul(weights).sum(); };
  const auto gradients = torch::autograd::grad({value()}, tensors, {}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_TRUE(gradients[i].defined()) << "tensor " << i << " has no gradient";
    for (uint64_t direction = 0; direction < 3; ++direction) {
      const at::NoGradGuard no_gradients;
      const at::Tensor step = normal(tensors[i].sizes(), 100 + direction).mul(1e-5);
      tensors[i].add_(step);
      const double above = value().item<double>();
      tensors[i].sub_(step).sub_(step);
      const double below = value().item<double>();
      tensors[i].add_(step);
      const double expected = (above - below) / 2;
      const double got = gradients[i].mul(step).sum().item<double>();
      EXPECT_NEAR(got, expected, 1e-6 * std::abs(expected) + 1e-12)
          << "tensor " << i << " direction " << direction;
    }
  }
}

std::vector<at::Tensor> Bench::tensors(const at::Tensor& x) const {
  std::vector<at::Tensor> all;
  if (x.defined()) all.push_back(x);
  for (const Param& param : params) all.push_back(param.tensor);
  return all;
}

void Bench::randomize_(double deviation, uint64_t seed) {
  const at::NoGradGuard no_gradients;
  for (const Param& param : params) param.tensor.copy_(normal(param.tensor.sizes(), seed++).mul(deviation));
}

TransformerOptions small_transformer() {
  return {.vocab_size = 11,
          .hidden_size = 16,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .max_position_embeddings = 8};
}

std::unique_ptr<Model> random_model(const ModelOptions& options, double deviation, uint64_t seed) {
  auto model = make_model(options, 1);
  const at::NoGradGuard no_gradients;
  for (const Param& param : model->params())
    param.tensor.copy_(normal(param.tensor.sizes(), seed++).mul(deviation));
  return model;
}

namespace {

std::unique_ptr<FusedProgram> program_of(const Model& model, const StepKernels& kernels) {
  if (const auto* transformer = dynamic_cast<const Transformer*>(&model))
    return transformer->fused_program(kernels);
  return dynamic_cast<const Mlp&>(model).fused_program(kernels);
}

}  // namespace

Fused::Fused(const Model& model, const StepKernels& kernels)
    : model_(model), pass_(program_of(model, kernels)) {}

LossAndGradients Fused::run(const at::Tensor& inputs, const at::Tensor& targets, bool gradients, Pass pass) {
  const ModelShape shape = model_.shape();
  if (shape.input == InputKind::vectors) return pass_.run_vectors(inputs, targets, shape, pass, gradients);
  const TransformerOptions options = transformer_options(model_);
  return pass_.run_tokens(inputs, targets, shape,
                          {.size = options.vocab_size, .document_token = options.document_token}, pass,
                          gradients);
}

double largest_rms(const at::Tensor& x) {
  return x.detach().to(at::kDouble).square().mean(-1).max().sqrt().item<double>();
}

double observed_stretch(const std::function<at::Tensor(const at::Tensor&)>& f, at::IntArrayRef shape,
                        double a, uint64_t seed) {
  double most = 0.0;
  const auto in_ball = [a](const at::Tensor& x) {
    return x.mul(a).div(x.square().mean(-1, true).sqrt().clamp_min(1e-30));
  };
  for (uint64_t start = 0; start < 6; ++start) {
    at::Tensor x = in_ball(normal(shape, seed + 17 * start)).detach();
    at::Tensor direction = normal(shape, seed + 1000 + start);
    for (int round = 0; round < 12;
         ++round) {  // power iteration on JᵀJ, then a step of x along what stretches more
      const double size = 1e-5;
      direction = direction.div(largest_rms(direction)).detach();
      x.requires_grad_(true);
      const at::Tensor difference = f(x.add(direction, size)).sub(f(x)).div(size);
      most = std::max(most, largest_rms(difference));
      const at::Tensor row = difference.square().mean(-1).max();
      const at::Tensor step = torch::autograd::grad({row}, {x}, {}, false, false, true)[0];
      x = x.detach();
      at::Tensor leaf = x.clone().requires_grad_(true);
      direction = torch::autograd::grad({f(leaf)}, {leaf}, {difference.detach()})[0];
      if (step.defined()) x = in_ball(x.add(step, 0.3 * a / (largest_rms(step) + 1e-30))).detach();
    }
  }
  return most;
}

}  // namespace bridle::test
