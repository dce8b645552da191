// Content heads of quadrature mixing (nn/content_heads.h): attention that reads whole tokens, into their columns of what the
// mixture's matrix reads.
#pragma once

#include "nn/fused_program.h"
#include "nn/positions.h"

namespace bridle {

struct FusedContentOptions {
  Param position_bias = {};  // [heads, offsets]
  Param log_range = {};      // [heads]
  Param coefficients = {};   // of the mixture; those of these heads begin at `first`
  int64_t first = 0;         // also of the blocks of `size` columns of `out`
  int64_t size = 0;          // of a token, a multiple of 32
  int64_t content_size = 0;  // of a query, a multiple of 32
  Visibility sees = {};
  FusedValue in = {};                // a point of the stream: its gradient is added to what is there
  FusedBuffer qk = {}, d_qk = {};    // queries of all heads, then keys
  FusedBuffer out = {}, d_out = {};  // of the whole mixture
  FusedBuffer log_sums = {};         // floats, one per head and row
};

class FusedContent : public FusedOperation {
 public:
  FusedContent(FusedProgram& program, FusedContentOptions options);
  Uses uses() const override;
  int64_t member_scratch(const FusedShape& shape) const override;
  void set_rows(FusedProgram& program, int64_t rows) override;
  void read_tables(const FusedProgram& program) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  AttentionTask task(const FusedGroup& group, int64_t sequence, int64_t head) const;
  int64_t heads() const { return options_.log_range.tensor.numel(); }

  // A head's range, what its logits and what its means are multiplied by.
  struct Head {
    float range, price, scale, gain;
  };
  FusedContentOptions options_;
  int64_t value_bytes_;
  size_t bias_place_, range_place_, coefficients_place_;
  FusedSumsPlace bias_sums_, sums_;  // of the gains, then of the scales
  int64_t rows_ = 0;                 // of a sequence
  std::vector<float> bias_;          // [heads, 2·rows]
  std::vector<Head> now_;
};

}  // namespace bridle
