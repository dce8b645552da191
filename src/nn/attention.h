// Causal attention of H heads, d_h = d/H:
//   logits = (s/d_h)·q·k (+ M_h[i − j]);   y = W_O · c · softmax(logits)·v.
// Which head of keys and values serves a query head is in nn/heads.h, and which tokens a token sees in nn/positions.h. Queries and
// keys, or values, may be divided by their RMS.
// The bound, for any number of heads, is statement 5 of docs/theory/modules.md.
#pragma once

#include <optional>

#include "nn/fused_program.h"
#include "nn/linear.h"
#include "nn/positions.h"
#include "nn/rope.h"
#include "nn/scale.h"

namespace bridle {

class Attention {
 public:
  // `block`: of num_hidden_layers, from 0.
  Attention(const TransformerOptions& options, Weights& weights, const std::string& name, int64_t block);
  // [B, T, d]; with a cache of this layer, x follows the tokens in it and is added to it.
  at::Tensor forward(const at::Tensor& x, Pass& pass, KeyValueCache::Layer* cache = nullptr) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;
  void fuse(FusedProgram& program, const FusedValue& in, const FusedEnd& end) const;

 private:
  at::Tensor split(const at::Tensor& x) const;  // [B, T, heads·d_h] → [B, heads, T, d_h]
  // Norms of a layer's heads, and of their biases: one per query head, of those that serve it.
  std::vector<UpperBound> head_norms(const Linear& layer, Walk& walk) const;
  std::vector<UpperBound> head_biases(const Linear& layer, Walk& walk) const;
  // Mask and position bias, [B or 1, H or 1, T, length], of T tokens that are the last of `length`.
  at::Tensor added_logits(const at::Tensor& like, int64_t length, const Pass& pass) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Pass& pass) const;
  double logit_scale() const {
    return softmax_scale_ * static_cast<double>(heads_) / static_cast<double>(size_);
  }
  UpperBound stretch(const UpperBound& a, const std::vector<double>& scales, Walk& walk) const;

  int64_t heads_;
  int64_t size_;
  double softmax_scale_;
  double dropout_;
  std::optional<double> qk_epsilon_;  // none: queries and keys are not normalised
  std::optional<double> value_epsilon_;
  Visibility sees_;
  Linear query_;
  Linear key_;
  Linear value_;
  Linear output_;
  Scale output_scale_;
  std::optional<Rope> rope_;
  std::optional<Param> position_bias_;
};

}  // namespace bridle
