// Runs a program over batches: groups of sequences go through it, each on its own thread, from a queue; for weights too large for
// that, all threads share one group. The modules' own forward with LibTorch's gradients is the plain twin. Results do not depend on
// the number of threads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nn/fused_group.h"

namespace bridle {

class FusedPass {
 public:
  explicit FusedPass(std::unique_ptr<FusedProgram> program) : program_(std::move(program)) {}

  // Tokens and targets are [B, T], int64; ids are below `vocabulary`, targets below `outputs`. Throws InputError.
  LossAndGradients run_tokens(const at::Tensor& tokens, const at::Tensor& targets, const ModelShape& shape,
                              int64_t vocabulary, Pass& pass, bool gradients);

  // Vectors [B, D], float32; targets [B], int64. Throws InputError.
  LossAndGradients run_vectors(const at::Tensor& vectors, const at::Tensor& targets, const ModelShape& shape,
                               Pass& pass, bool gradients);

 private:
  // Where group `task` finds its inputs, given the sequence that it begins with.
  using InputsAt = std::function<FusedInputs(int64_t sequence)>;
  LossAndGradients run(const FusedShape& shape, const InputsAt& inputs, double targets, Pass& pass,
                       bool with_gradients);
  void prepare(const FusedShape& shape, const Team& team, bool gradients);
  std::vector<at::Tensor> gradients(const Team& team, double targets) const;

  std::mutex mutex_;  // the memory serves one run at a time
  std::unique_ptr<FusedProgram> program_;
  FusedShape shape_;
  int threads_ = 0;
  bool holds_gradients_ = false;
  std::vector<std::unique_ptr<FusedGroup>> groups_;  // one, or one a thread
  std::vector<std::unique_ptr<FusedSums>> sums_;     // one a slot
};

}  // namespace bridle
