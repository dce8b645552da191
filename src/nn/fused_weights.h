// The matrices of a fused pass: packed for the products of both directions once a step, and sums of their gradients, which
// become tensors at its end.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/arena.h"
#include "kernels/step_kernels.h"
#include "kernels/team.h"

namespace bridle {

// One or more weights [out, in] that share their input, side by side along the outputs (q, k and v).
class FusedWeight {
 public:
  // Which of its two sides a gradient's sums have as the left one: the narrower, as a rule.
  enum class Left { in, out };
  // Of each part, the first `rows` are used; 0: all. The tensors are looked at anew for every packing.
  FusedWeight(std::vector<at::Tensor> parts, Left left, int64_t rows = 0);

  int64_t in() const { return in_; }                      // padded
  int64_t out() const { return out_; }                    // of all parts, each padded
  const uint32_t* forward() const { return forward_; }    // lines are outputs
  const uint32_t* backward() const { return backward_; }  // lines are inputs
  int64_t sums() const { return in_ * out_; }             // floats of a slot

  int64_t bytes() const;
  void take(Arena& arena);

  // From the weights as they are now. The pieces are independent of each other.
  int64_t pack_pieces() const { return (in_ + out_) / amx::kBlock; }
  void pack_piece(int64_t piece, const StepKernels& kernels) const;

  // gradients = factor·Σ slots, [out, in] each.
  void unpack(const Team& team, const std::vector<const float*>& slots, float factor,
              const std::vector<at::Tensor>& gradients) const;

 private:
  int64_t part_out() const { return out_ / static_cast<int64_t>(parts_.size()); }
  std::vector<at::Tensor> parts_;
  Left left_;
  int64_t rows_;  // of a part
  int64_t in_;
  int64_t out_;
  uint32_t* forward_ = nullptr;
  uint32_t* backward_ = nullptr;
};

}  // namespace bridle
