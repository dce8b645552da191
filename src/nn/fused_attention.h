// Causal attention of every head over every sequence, from q, k and v side by side; and rope on the first two.
#pragma once

#include <optional>

#include "nn/fused_program.h"
#include "nn/positions.h"
#include "nn/rope.h"

namespace bridle {

// q, k and v side by side in a buffer: where each begins, and how many heads it has.
struct FusedHeads {
  struct Part {
    int64_t column = 0, heads = 0;
  };
  FusedBuffer qkv = {}, d_qkv = {};
  Part query = {}, key = {}, value = {};
  int64_t head_size = 0;
  int64_t column(const Part& part, int64_t head) const { return part.column + head * head_size; }
  int64_t end(const Part& part) const { return column(part, part.heads); }
};

class FusedRope : public FusedOperation {
 public:
  FusedRope(const FusedHeads& heads, const RopeOptions& options) : heads_(heads), options_(options) {}
  Uses uses() const override { return {.forward = {heads_.qkv}, .backward = {heads_.d_qkv}}; }
  void set_rows(FusedProgram& program, int64_t rows) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;

 private:
  void rotate(FusedGroup& group, FusedBuffer buffer, const FusedPart& part, float direction) const;
  FusedHeads heads_;
  RopeOptions options_;
  std::vector<float> cosine_, sine_;  // [rows, head_size/2]
};

// x/√(mean of x² + ε) of every query and key, and of every value where that is wanted.
class FusedHeadNorm : public FusedOperation {
 public:
  FusedHeadNorm(FusedProgram& program, const FusedHeads& heads, std::vector<FusedHeads::Part> parts,
                double epsilon)
      : heads_(heads),
        parts_(std::move(parts)),
        epsilon_(epsilon),
        inverse_(program.floats(normed_heads())) {}
  Uses uses() const override {
    return {.forward = {heads_.qkv, inverse_}, .backward = {heads_.qkv, heads_.d_qkv, inverse_}};
  }
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;

 private:
  template <class Kernel>
  void each_rows(FusedGroup& group, const FusedPart& part, Kernel kernel) const;
  int64_t normed_heads() const {
    int64_t all = 0;
    for (const FusedHeads::Part& part : parts_) all += part.heads;
    return all;
  }
  FusedHeads heads_;
  std::vector<FusedHeads::Part> parts_;
  double epsilon_;
  FusedBuffer inverse_;
};

struct FusedAttentionOptions {
  FusedHeads heads = {};
  float scale = 1.0F;                       // of logits
  std::optional<Param> position_bias = {};  // [heads, offsets]
  FusedBuffer out = {}, d_out = {};         // heads side by side
  FusedBuffer log_sums = {};                // floats, one per head and row
  Visibility sees = {};
  double dropout = 0.0;  // of the weights
};

// A table of logits [heads, offsets] as the kernels read it, [heads, 2·rows]: offset o at rows − 1 − o; the last offset serves all
// that are farther.
void spread_offsets(const Param& table, int64_t rows, std::vector<float>& out);

class FusedAttention : public FusedOperation {
 public:
  FusedAttention(FusedProgram& program, FusedAttentionOptions options);
  Uses uses() const override;
  int64_t member_scratch(const FusedShape& shape) const override;
  void set_rows(FusedProgram& program, int64_t rows) override;
  void read_tables(const FusedProgram& program) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

  // Of one head, [2·rows], as AttentionTask has it; null without.
  const float* bias_of(int64_t head) const;

 private:
  AttentionTask task(const FusedGroup& group, int64_t sequence, int64_t head) const;
  AttentionTask backward_task(const FusedGroup& group, int64_t sequence, int64_t head) const;
  // Floats of what is added up for the keys of a head, and as many for its values: whole cache lines.
  int64_t key_sums(int64_t rows) const { return rows * padded(options_.heads.head_size); }
  FusedAttentionOptions options_;
  int64_t value_bytes_;
  size_t bias_place_ = 0;
  uint64_t dropout_call_ = 0;
  FusedSumsPlace bias_sums_;
  int64_t rows_ = 0;         // of a sequence
  std::vector<float> bias_;  // [heads, 2·rows], or empty
};

}  // namespace bridle
