// What tests of modules need: gradients against finite differences, and the largest stretch that a search finds.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "bridle/nn.h"
#include "nn/fused_pass.h"
#include "nn/weights.h"

namespace bridle::test {

// `resolved` of one kind of model.
template <class Options>
Options filled_in(const Options& options) {
  return std::get<Options>(resolved(ModelOptions(options)));
}

TransformerOptions transformer_options(const Model& model);
MlpOptions mlp_options(const Model& model);

// Central differences in float64 of Σ r·f() along random directions of each tensor, against autograd.
void expect_gradients(const std::function<at::Tensor()>& f, const std::vector<at::Tensor>& tensors);

// Weights of a module that is tested by itself, in float64, so that finite differences mean something.
struct Bench {
  explicit Bench(const TransformerOptions& model_options, at::ScalarType dtype = at::kDouble,
                 uint64_t seed = 3)
      : options(filled_in(model_options)),
        weights(options.initialization, 2 * options.num_hidden_layers, {.seed = seed, .dtype = dtype},
                params) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  std::vector<at::Tensor> tensors(const at::Tensor& x) const;
  void randomize_(double deviation, uint64_t seed = 5);  // every weight, the zero ones too

  TransformerOptions options;
  std::vector<Param> params;
  Weights weights;
  Pass pass{.dtype = at::kDouble};
};

// Answers no question about weights: for modules that ask none.
struct NoNorms : NormSource {
  UpperBound matrix(const Param&) override { return UpperBound::unbounded(); }
  std::vector<UpperBound> heads(const Param&, int64_t) override { return {}; }
  UpperBound scaled_heads(const Param&, std::span<const UpperBound>) override {
    return UpperBound::unbounded();
  }
  UpperBound scaled_columns(const Param&, std::span<const double>) override {
    return UpperBound::unbounded();
  }
  std::vector<double> head_scales(const Param&, const Param&, int64_t, const Price&) override { return {}; }
  UpperBound largest_row_rms(const Param&) override { return UpperBound::unbounded(); }
  UpperBound largest_entry(const Param&) override { return UpperBound::unbounded(); }
  UpperBound euclidean(const Param&) override { return UpperBound::unbounded(); }
  std::vector<UpperBound> euclidean_heads(const Param&, int64_t) override { return {}; }
};

TransformerOptions small_transformer();

// Every weight normal, the ones that begin at zero too; float32.
std::unique_ptr<Model> random_model(const ModelOptions& options, double deviation = 0.3, uint64_t seed = 1);

// A model's fused pass, with the kernels of one instruction set.
class Fused {
 public:
  explicit Fused(const Model& model, const StepKernels& kernels = step_kernels());
  LossAndGradients run(const at::Tensor& inputs, const at::Tensor& targets, bool gradients, Pass pass = {});

 private:
  const Model& model_;
  FusedPass pass_;
};

double largest_rms(const at::Tensor& x);  // over the last dimension

// ‖f(x) − f(y)‖/‖x − y‖ in largest-RMS norms over random and ascended pairs in the ball of radius `a`; never above what f
// really does.
double observed_stretch(const std::function<at::Tensor(const at::Tensor&)>& f, at::IntArrayRef shape,
                        double a, uint64_t seed);

}  // namespace bridle::test
