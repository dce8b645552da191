// The matrices of a fused pass: packed for the products of both directions once per step, and sums of their gradients, which
// become tensors at its end.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/arena.h"
#include "kernels/step_kernels.h"
#include "kernels/team.h"

namespace bridle {

// Some columns of a weight; none: all.
struct FusedColumns {
  int64_t first = 0, count = 0;
  at::Tensor of(const at::Tensor& weight) const {
    return count == 0 ? weight : weight.narrow(1, first, count);
  }
};

// One or more weights [out, in] that share their input, side by side along the outputs (q, k and v).
class FusedWeight {
 public:
  // Which of its two sides a gradient's sums have as the left one: the narrower, as a rule.
  enum class Left { in, out };
  // Of each part, the first `rows` are used; 0: all. The tensors are looked at anew for every packing. Without a way back the
  // gradient of its input is never computed.
  FusedWeight(const StepKernels& kernels, std::vector<at::Tensor> parts, Left left, int64_t rows = 0,
              bool has_way_back = true, FusedColumns columns = {});

  int64_t in() const { return in_; }    // padded
  int64_t out() const { return out_; }  // of all parts, each padded
  Left left() const { return left_; }
  int64_t left_columns() const { return left_ == Left::in ? in_ : out_; }
  int64_t first_row(size_t part) const { return starts_[part]; }  // of a part, among the padded outputs
  const uint32_t* forward() const { return forward_; }            // lines are outputs
  const uint32_t* backward() const { return backward_; }          // lines are inputs
  int64_t sums() const { return in_ * out_; }                     // floats of a slot

  int64_t bytes() const;
  void take(Arena& arena);

  // From the weights as they are now. The pieces are independent of each other.
  int64_t pack_pieces() const { return (out_ + (has_way_back_ ? in_ : 0)) / amx::kBlock; }
  void pack_piece(int64_t piece) const;

  // gradients = factor·Σ slots, [out, in] each; columns are consecutive.
  void unpack(const Team& team, const std::vector<const float*>& slots, float factor,
              const std::vector<at::Tensor>& gradients) const;

 private:
  int64_t packed_words() const { return kernels_.packed_words(out_, in_); }
  int64_t rows_of(size_t part) const { return rows_ == 0 ? parts_[part].size(0) : rows_; }
  size_t part_at(int64_t row) const;
  const StepKernels& kernels_;
  std::vector<at::Tensor> parts_;
  Left left_;
  int64_t rows_;  // of a part; 0: all
  bool has_way_back_;
  FusedColumns columns_;
  int64_t in_;
  std::vector<int64_t> starts_;  // of parts, and the end
  int64_t out_;
  uint32_t* forward_ = nullptr;
  uint32_t* backward_ = nullptr;
};

}  // namespace bridle
