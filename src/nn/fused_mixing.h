// The parts of quadrature mixing (nn/mixing.h), side by side, for the matrix that follows: the token, its heads' means by position,
// and the decaying maximum of channels that a product has given. Content heads (nn/fused_content.h) stand between those two, and
// run before.
#pragma once

#include <optional>

#include "nn/fused_program.h"
#include "nn/positions.h"

namespace bridle {

struct FusedMixingOptions {
  Param position_bias = {};             // [heads, offsets]
  Param coefficients = {};              // [1 + heads (+ content heads) (+ 1)]
  std::optional<Param> log_decay = {};  // [channels]
  int64_t size = 0;                     // of a token, a multiple of 32
  Visibility sees = {};
  double dropout = 0.0;                    // of what it gives
  FusedValue in = {};                      // a point of the stream: its gradient is delivered into it
  FusedBuffer memory = {}, d_memory = {};  // what the maximum is taken of; none without channels
  FusedBuffer out = {}, d_out = {};
};

class FusedMixing : public FusedOperation {
 public:
  FusedMixing(FusedProgram& program, FusedMixingOptions options);
  Uses uses() const override;
  int64_t member_scratch(const FusedShape& shape) const override;
  void set_rows(FusedProgram& program, int64_t rows) override;
  void read_tables(const FusedProgram& program) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  MixTask mix_task(const FusedGroup& group, int64_t sequence) const;
  DecayTask decay_task(const FusedGroup& group, int64_t sequence) const;
  void drop(const FusedGroup& group, int64_t sequence, const FusedMatrix& z) const;  // in place
  int64_t heads() const { return options_.position_bias.tensor.size(0); }
  int64_t memory_column() const { return (options_.coefficients.tensor.numel() - 1) * options_.size; }
  int64_t channels() const { return options_.log_decay ? options_.log_decay->tensor.numel() : 0; }

  FusedMixingOptions options_;
  int64_t value_bytes_;
  size_t bias_place_, coefficients_place_, decay_place_ = 0;
  FusedSumsPlace bias_sums_, sums_;  // of the coefficients, then of the decays
  FusedBuffer stays_ = {};
  uint64_t dropout_call_ = 0;
  int64_t rows_ = 0;  // of a sequence
  std::vector<float> exponentials_, shares_, coefficients_, decays_;
};

}  // namespace bridle
