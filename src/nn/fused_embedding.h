// Rows of a table, with learned positions, into the residual stream; and vectors that are given as they are.
#pragma once

#include <optional>

#include "nn/fused_program.h"

namespace bridle {

struct FusedEmbeddingOptions {
  Param table = {};
  std::optional<Param> positions = {};
  FusedBuffer stream = {};  // float32; on the way back its gradient
  FusedBuffer copy = {};    // of values
  double dropout = 0.0;
};

class FusedEmbedding : public FusedOperation {
 public:
  FusedEmbedding(FusedProgram& program, FusedEmbeddingOptions options);
  Uses uses() const override {
    return {.forward = {options_.stream, options_.copy}, .backward = {options_.stream}};
  }
  void set_rows(FusedProgram& program, int64_t rows) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  void drop(const FusedGroup& group, int64_t row,
            float* x) const;  // what dropout drops of a row of the stream
  FusedEmbeddingOptions options_;
  size_t table_place_;
  size_t positions_place_ = 0;
  int64_t width_;     // padded
  int64_t rows_ = 0;  // of a sequence
  FusedSumsPlace sums_;
  FusedSumsPlace positions_sums_;
  uint64_t dropout_call_ = 0;
};

class FusedVectors : public FusedOperation {
 public:
  FusedVectors(FusedBuffer out, int64_t size) : out_(out), size_(size) {}
  Uses uses() const override { return {.forward = {out_}, .backward = {}}; }
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& /*group*/, const FusedPart& /*part*/) const override {}

 private:
  FusedBuffer out_;
  int64_t size_;
};

}  // namespace bridle
