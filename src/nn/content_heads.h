// Content heads of quadrature mixing (nn/mixing.h) read whole tokens by what they are, and each pays for it by itself:
//   f_k(x)_i = Σ_j p_ij·x_j / ℓ(r_k),   p_i = softmax over j of b_k(i − j) + r_k·(Q_k x_i)·(K_k x_j)/d_c,   ℓ(r) = r + √(1 + r²)
// r = exp(ρ) is how far content can move a logit where ‖Q_k‖, ‖K_k‖ and the tokens' norm are at most 1, and ℓ(r) what the mean's
// stretch can be then. So f_k has stretch 1, and what r costs is the strength of this head alone:
// docs/theory/modules.md, statement 13.
#pragma once

#include <string>

#include "nn/enclosure.h"
#include "nn/fused_program.h"
#include "nn/linear.h"
#include "nn/positions.h"
#include "nn/weights.h"

namespace bridle {

constexpr double kLargestLogRange = 10.0;  // e¹⁰ reads a single token

// What exponentials are computed in: float32, or float64 where the pass is.
at::Tensor exact_enough(const at::Tensor& weight, const at::Tensor& x);

// Where the block of z is that content heads write, for fuse.
struct ContentEnd {
  Param coefficients = {};
  int64_t first = 0;  // of the coefficients, and of the blocks of d columns
  FusedBuffer out = {}, d_out = {};
};

class ContentHeads {
 public:
  ContentHeads(const TransformerOptions& options, Weights& weights, const std::string& name, int64_t block);

  // Σ_j p_ij·x_j, without ℓ: [B, K, T, d]. `seen` ends with x: [B, length, d]; a cache has the keys of those before.
  at::Tensor means(const at::Tensor& x, const at::Tensor& seen, const Pass& pass,
                   KeyValueCache::Layer* cache = nullptr) const;
  at::Tensor prices(const at::Tensor& like) const;  // ℓ(r): [K]
  // Of any of them, for tokens of norm at most `activation`; at least 1.
  UpperBound stretch(const UpperBound& activation, Walk& walk) const;
  // Of the means; distances are [cases, B, K, T].
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;
  void fuse(FusedProgram& program, const FusedValue& in, const ContentEnd& end) const;

 private:
  at::Tensor split(const at::Tensor& x) const;            // [B, T, K·d_c] → [B, K, T, d_c]
  at::Tensor logit_scales(const at::Tensor& like) const;  // r/d_c: [K]
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& seen, const Pass& pass) const;

  int64_t heads_, size_, content_size_;
  Visibility sees_;
  Linear query_, key_;   // [K·d_c, d]
  Param position_bias_;  // [K, offsets]
  Param log_range_;      // ρ: [K]
};

}  // namespace bridle
