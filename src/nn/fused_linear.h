// y = f·(s·W·x + b) with what follows: stored, through an activation, or added to the residual stream. Several weights that
// share their input stand side by side (q, k and v).
#pragma once

#include <optional>

#include "nn/fused_group.h"
#include "nn/fused_program.h"

namespace bridle {

struct FusedLinearOptions {
  std::vector<Param> weights = {};
  std::vector<Param> biases = {};                  // one per weight, or none
  FusedColumns columns = {};                       // of the only weight
  FusedWeight::Left left = FusedWeight::Left::in;  // the narrower side, as a rule
  FusedValue in = {};
  FusedNumber factor = {};                  // f
  float scale = 1.0F;                       // s
  std::optional<Param> learned_scale = {};  // instead of it: this entry of a weight
  int64_t scale_entry = 0;
  // What it gives, one of these:
  FusedBuffer out = {}, d_out = {};  // and its gradient
  FusedBuffer slope = {};            // through an activation: its slopes
  ActivationKind activation = ActivationKind::relu;
  float share = 1.0F;       // of the activation
  FusedBuffer stream = {};  // added to keep·stream; `out` is a copy of that
  FusedNumber keep = {0.0F};
  std::optional<Param> alpha = {};        // learned: f is α
  FusedBuffer before = {};                // where keep is 1 − α: a copy of the stream before
  double dropout = 0.0, drop_path = 0.0;  // with a stream: of what is added, by entry and by sequence
};

// The end of a branch: y is added to the stream.
FusedLinearOptions ending(const FusedEnd& end, FusedLinearOptions options);

class FusedLinear : public FusedOperation {
 public:
  FusedLinear(FusedProgram& program, FusedLinearOptions options);
  Uses uses() const override;
  std::vector<FusedWeight*> weights() override { return {&weight_}; }
  void read_tables(const FusedProgram& program) override;
  void forward(FusedGroup& group, const FusedPart& part) const override;
  void backward(FusedGroup& group, const FusedPart& part) const override;
  void add_gradients(FusedGroup& group) const override;
  void gradients(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const override;

 private:
  // The gradient of a weight, or the part of it that this product gives, to be written.
  at::Tensor result_for(size_t part, std::span<at::Tensor> results) const;
  void add_to_scale(const at::Tensor& gradient, std::span<at::Tensor> results) const;
  void gradients_by_column(const FusedSlots& slots, float mean, std::span<at::Tensor> results) const;
  // Rows of `in`, less what is dropped and times shares, into `out`.
  void drop_rows(FusedGroup& group, const FusedPart& part, FusedBuffer in, FusedBuffer out,
                 const DropTask& what) const;
  FusedDrop drop(const FusedGroup& group) const;
  FusedDrop drop_path(const FusedGroup& group) const;
  bool drops(const FusedGroup& group) const;
  int64_t drop_row(const FusedGroup& group, int64_t row) const;

  FusedLinearOptions options_;
  FusedWeight weight_;
  FusedSumsPlace sums_, bias_sums_;
  std::vector<size_t> places_, bias_places_;  // among the model's params
  size_t scale_place_ = 0;
  float factor_ = 1.0F, scale_;    // as they are now
  const float* shares_ = nullptr;  // f for each column, instead of factor_, which is then 1
  std::vector<float> bias_;        // times the factor; padded, or empty
  FusedSumsPlace alpha_sums_;
  size_t alpha_place_ = 0;
  uint64_t dropout_call_ = 0, drop_path_call_ = 0;
  FusedBuffer d_kept_ = {};    // the gradient of what dropout has kept
  FusedBuffer d_shared_ = {};  // times a vector α
};

// sums[i] += Σ_rows left[row, i], or of left times right, over all rows of the group.
void add_columns(FusedGroup& group, const FusedMatrix& left, float* sums, const FusedMatrix* right = nullptr);

}  // namespace bridle
