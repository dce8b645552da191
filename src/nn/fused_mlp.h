// Forward, loss and backward of a multilayer perceptron in one, in bfloat16 products with float32 sums; all threads share every
// product. The modules' own forward with LibTorch's gradients is the plain twin.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "bridle/nn.h"
#include "nn/fused_ops.h"

namespace bridle {

class FusedMlp {
 public:
  // Throws std::logic_error for options that `why_not` names.
  FusedMlp(const MlpOptions& options, const std::vector<Param>& params,
           const StepKernels& kernels = step_kernels());

  // Why such passes of such a model are not fused, in words for the user; empty where they are.
  static std::string why_not(const MlpOptions& options, const Pass& pass);

  // Pixels [B, D], float32; targets [B], int64. Throws InputError for a target that is no class, or pixels of another size.
  LossAndGradients run(const at::Tensor& pixels, const at::Tensor& targets, const Pass& pass, bool gradients);

 private:
  struct Layer {
    FusedWeight weight;
    FusedMatrix in = {}, slope = {},
                d_out = {};  // what it gets; of the activation before it; the gradient of its output
    float* sums = nullptr;
  };
  void prepare(int64_t images);
  void pack() const;
  void forward(const at::Tensor& pixels);
  LossAndGradients loss(const at::Tensor& targets, double margin, bool gradients);
  void backward();
  bool is_last(const Layer& layer) const { return &layer == &layers_.back(); }

  std::mutex mutex_;  // the memory serves one run at a time
  MlpOptions options_;
  std::vector<Param> params_;
  const StepKernels& kernels_;
  std::vector<Layer> layers_;
  std::unique_ptr<FusedOps> ops_;
  Arena packed_, memory_;
  int64_t rows_ = 0;  // images, padded
  float* logits_ = nullptr;
};

}  // namespace bridle
