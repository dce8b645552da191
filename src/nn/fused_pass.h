// Runs a program over batches: groups of sequences go through it, each on its own thread, from a queue; for weights too large for
// that, all threads share one group. The modules' own forward with LibTorch's gradients is the plain twin. Results do not depend on
// the number of threads.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nn/fused_group.h"

namespace bridle {

class FusedPass {
 public:
  explicit FusedPass(std::unique_ptr<FusedProgram> program) : program_(std::move(program)) {}

  // Tokens and targets are [B, T], int64; ids are below `vocabulary`, targets below `outputs`. Where a token begins documents,
  // attention stays inside them. Throws InputError.
  struct Vocabulary {
    int64_t size = 0;
    int64_t document_token = -1;
  };
  LossAndGradients run_tokens(const at::Tensor& tokens, const at::Tensor& targets, const ModelShape& shape,
                              const Vocabulary& vocabulary, Pass& pass, bool gradients);

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

// The passes of a model: one for each type of values, made when it is first asked for.
class FusedPasses {
 public:
  using MakeProgram = std::function<std::unique_ptr<FusedProgram>(const StepKernels&)>;
  explicit FusedPasses(MakeProgram make) : make_(std::move(make)) {}
  FusedPass& of(ValueType values);

 private:
  MakeProgram make_;
  std::array<std::once_flag, 2> made_ = {};
  std::array<std::unique_ptr<FusedPass>, 2> passes_ = {};
};

// What values a pass is computed with; none where no fused pass knows it. An allow-list over every field of Pass.
std::optional<ValueType> fused_values(const Pass& pass);
std::string why_not_fused_pass(const Pass& pass);  // empty where there are such values

}  // namespace bridle
