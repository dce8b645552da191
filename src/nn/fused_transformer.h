// Forward, loss and backward of a transformer in one: bfloat16 products with float32 sums and a float32 residual stream, in
// kernels that do what stands around a product while it is in the cache. Groups of sequences go through all layers, each on its
// own thread, from a queue; for weights too large for that, all threads share one group. The modules' own forward with LibTorch's
// gradients is the plain twin. Results do not depend on the number of threads.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "nn/fused_group.h"

namespace bridle {

class FusedTransformer {
 public:
  FusedTransformer(const TransformerOptions& options, const std::vector<Param>& params,
                   const StepKernels& kernels = step_kernels())
      : model_(options, params, kernels) {}

  // Tokens and targets are [B, T], int64. Throws InputError for a token or target outside the vocabulary, or more tokens than
  // learned positions.
  LossAndGradients run(const at::Tensor& tokens, const at::Tensor& targets, bool gradients,
                       PhaseTimes* times);

 private:
  void prepare(const FusedShape& shape, const Team& team, bool gradients);
  std::vector<at::Tensor> gradients(const Team& team, double targets) const;

  std::mutex mutex_;  // the memory serves one run at a time
  FusedModel model_;
  FusedShape shape_;
  int threads_ = 0;
  std::vector<std::unique_ptr<FusedGroup>> groups_;  // one, or one a thread
  std::vector<std::unique_ptr<FusedSums>> sums_;     // one a slot
};

}  // namespace bridle
