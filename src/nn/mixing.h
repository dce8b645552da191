// Quadrature mixing: what a token takes from the tokens before it, and the skip, in one matrix.
//   y_i = M·[c₀x_i; c₁·(P₁x)_i; …; c_H·(P_Hx)_i; c_k·f_k(x)_i …; c_m·m_i]
// P_h weights tokens by their distance alone, softmax of a learned b_h(i − j) over the window: it is a mean of whole vectors and
// has stretch 1. f_k are content heads (nn/content_heads.h), whose stretch is 1 as well. m, with C channels, remembers what was seen at any distance: m_{i,c} = max_j (u_c·x_j/√(Cd) − λ_c(i − j)), λ = exp(ρ).
// Stretch ≤ σ(M)·|c|·max(1, largest row RMS of u, ‖Q_k‖‖K_k‖a²): docs/theory/modules.md, statements 11 to 13.
#pragma once

#include <optional>
#include <string>

#include "nn/content_heads.h"
#include "nn/enclosure.h"
#include "nn/fused_program.h"
#include "nn/linear.h"
#include "nn/positions.h"
#include "nn/weights.h"

namespace bridle {

constexpr double kLargestLogDecay = 10.0;  // e¹⁰ forgets everything at once

class Mixing {
 public:
  Mixing(const TransformerOptions& options, Weights& weights, const std::string& name, int64_t block);
  // [B, T, d]; with a cache of this layer, x follows the tokens in it and is added to it.
  at::Tensor forward(const at::Tensor& x, Pass& pass, KeyValueCache::Layer* cache = nullptr) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;
  // It takes the stream's place: `end` keeps nothing of what was there.
  void fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const;

 private:
  // Weights of the heads for the last `rows` of `length` tokens, [B or 1, H, rows, length].
  at::Tensor head_weights(int64_t rows, int64_t length, const Pass& pass, const at::Tensor& like) const;
  at::Tensor memory_inputs(const at::Tensor& x) const;  // u·x/√(Cd): [B, T, C]
  at::Tensor memory(const at::Tensor& v, const at::Tensor& begins, int64_t first,
                    const at::Tensor& before) const;
  double memory_scale() const;
  at::Tensor content_gains(const at::Tensor& like) const;

  int64_t heads_, size_, content_heads_, channels_;
  Visibility sees_;
  double dropout_;                     // of what the matrix reads
  Param position_bias_;                // [H, offsets]
  Param coefficients_;                 // [1 + H + K (+ 1)]
  std::optional<Param> memory_table_;  // u: [C, d]
  std::optional<Param> log_decay_;     // ρ: [C]
  Linear output_;                      // M
  std::optional<ContentHeads> content_;
};

}  // namespace bridle
