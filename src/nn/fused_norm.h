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
  void read_tables() override;
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

// The largest RMS of a row and the largest entry of the stream, where statistics are wanted.
class FusedStatistics : public FusedOperation {
 public:
  FusedStatistics(std::string name, FusedBuffer stream, int64_t size)
      : name_(std::move(name)), stream_(stream), size_(size) {}
  Uses uses() const override { return {.forward = {stream_}, .backward = {}}; }
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& /*group*/, const FusedPart& /*part*/) const override {}

 private:
  std::string name_;
  FusedBuffer stream_;
  int64_t size_;
};

// Of `rows` rows of float32, `stride` apart, of which `size` entries count.
ActivationStatistics::Layer largest_of(const float* values, int64_t rows, int64_t stride, int64_t size);

}  // namespace bridle
