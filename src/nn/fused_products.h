// The products of a fused pass on matrices of activations, shared by a team.
#pragma once

#include <cstddef>
#include <vector>

#include "nn/fused_weights.h"

namespace bridle {

// Activations, one row per token or image; rows do not all fall into the same sets of a cache.
struct FusedMatrix {
  std::byte* data = nullptr;
  int64_t columns = 0, stride = 0;
  int64_t value_bytes = 2;
  std::byte* row(int64_t i) const { return at(i, 0); }
  std::byte* at(int64_t i, int64_t column) const { return data + (i * stride + column) * value_bytes; }

  static constexpr int64_t stride_of(int64_t columns) { return columns + 32; }
};

constexpr int64_t kGradientDepth = 1024;  // rows that a weight's gradient adds up at once

// Who computes, with what, and memory for it.
class FusedProducts {
 public:
  FusedProducts(const StepKernels& kernels, Team team, int64_t most_left_columns);

  enum class Way { forward, backward };

  // Rows [first, first + rows) of left times the weight, or times its transpose; the task says what becomes of them.
  void linear(const FusedWeight& weight, Way way, const FusedMatrix& left, LinearTask task, int64_t first,
              int64_t rows) const;

  // out (+)= leftᵀ·right over the first so many rows. Left has at most `most_left_columns`.
  void add_gradient(const FusedMatrix& left, const FusedMatrix& right, int64_t rows, float* out,
                    bool add) const;

  // `count` values further; null stays null.
  void* moved_down(void* values, int64_t count) const;

  const StepKernels& kernels() const { return kernels_; }
  const Team& team() const { return team_; }

 private:
  const StepKernels& kernels_;
  Team team_;
  Arena memory_;
  uint32_t* packed_left_ = nullptr;
  std::vector<uint32_t*> packed_right_;  // a member
};

}  // namespace bridle
