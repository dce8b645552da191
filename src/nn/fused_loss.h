// The head and the loss: logits = scale·W·x (+ b), cross-entropy, and in the same chunk of rows the gradients of both, so that
// only a chunk of logits is ever in memory.
#pragma once

#include <optional>
#include <string>

#include "nn/fused_program.h"

namespace bridle {

struct FusedLossOptions {
  Param head = {};
  int64_t outputs = 0;  // rows of it that are classes or real tokens
  FusedWeight::Left left = FusedWeight::Left::in;
  FusedValue in = {};
  float scale = 1.0F;
  std::optional<Param> learned_scale = {};  // instead of it
  std::optional<Param> bias = {};           // [outputs]
  float soft_cap = 0.0F;                    // c: logits become c·tanh(z/c); 0: they stay
  std::string name = "lm_head";             // in statistics
};

class FusedLoss : public FusedOperation {
 public:
  FusedLoss(FusedProgram& program, FusedLossOptions options);
  Uses uses() const override;
  std::vector<FusedWeight*> weights() override { return {&weight_}; }
  int64_t scratch(const FusedShape& shape) const override;
  void read_tables(const FusedProgram& program) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;  // and back, where there are sums
  void backward(FusedGroup& /*group*/, const FusedPart& /*part*/) const override {}
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  struct Chunk {
    int64_t top, rows;  // of the group
    float* logits;
    FusedMatrix d_logits;
  };
  int64_t chunk_rows(int64_t rows) const;
  void cross_entropy(FusedGroup& group, const Chunk& chunk) const;
  void back(FusedGroup& group, const Chunk& chunk) const;

  FusedLossOptions options_;
  FusedWeight weight_;
  int64_t value_bytes_;
  size_t head_place_;
  size_t bias_place_ = 0, scale_place_ = 0;
  float scale_;
  FusedSumsPlace sums_, bias_sums_;
  std::vector<float> bias_;  // padded, or empty
};

}  // namespace bridle
