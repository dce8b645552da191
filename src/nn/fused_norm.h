// A norm between the residual stream and a branch (or the head): nn/norm.h's, in one pass over each row there and back.
#pragma once

#include <optional>
#include <string>

#include "nn/fused_program.h"

namespace bridle {

struct FusedNormOptions {
  NormLayer kind = NormLayer::rms_norm;
  double epsilon = 0.0;
  int64_t size = 0;
  std::optional<Param> gain = {}, bias = {};
  FusedValue in = {};  // a point of the stream: its gradient is delivered into it
};

class FusedNorm : public FusedOperation {
 public:
  FusedNorm(FusedProgram& program, FusedNormOptions options);
  FusedValue value() const { return {.values = out_, .gradient = d_out_}; }  // what it gives
  Uses uses() const override;
  void read_tables(const FusedProgram& program) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void add_gradients(FusedGroup& group) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  template <class Run>
  void each_rows(FusedGroup& group, const FusedPart& part, const Run& run) const;
  NormTask task(const FusedGroup& group, int64_t row, int64_t rows) const;

  FusedNormOptions options_;
  FusedBuffer normal_, out_, d_out_;
  FusedBuffer inverse_;
  std::vector<float> gain_, bias_;  // padded, or empty
  size_t gain_place_ = 0, bias_place_ = 0;
  FusedSumsPlace gain_sums_, bias_sums_;
};

// The largest RMS of a row and the largest entry of the stream, or of a matrix of values, where statistics are wanted.
class FusedStatistics : public FusedOperation {
 public:
  enum class Of { stream, matrix };
  FusedStatistics(std::string name, FusedBuffer buffer, int64_t size, Of of = Of::stream)
      : name_(std::move(name)), buffer_(buffer), size_(size), of_(of) {}
  Uses uses() const override { return {.forward = {buffer_}, .backward = {}}; }
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& /*group*/, const FusedPart& /*part*/) const override {}

 private:
  std::string name_;
  FusedBuffer buffer_;
  int64_t size_;
  Of of_;
};

// Of `rows` rows of float32, `stride` apart, of which `size` entries count.
ActivationStatistics::Layer largest_of(const float* values, int64_t rows, int64_t stride, int64_t size);

// Of the first so many rows and columns of a matrix of values.
ActivationStatistics::Layer largest_of(const FusedMatrix& matrix, int64_t first, int64_t rows, int64_t size);

}  // namespace bridle
