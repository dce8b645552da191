// Causal attention of H heads, d_h = d/H:
//   logits = (s/d_h)·q·k (+ M_h[i − j]);   y = W_O · c · softmax(logits)·v.
// The bound, for any number of heads, is statement 5 of docs/theory/modules.md.
#pragma once

#include <optional>

#include "nn/linear.h"
#include "nn/rope.h"
#include "nn/scale.h"

namespace bridle {

class Attention {
 public:
  Attention(Weights& weights, const std::string& name);
  // [B, T, d]; with a cache of this layer, x follows the tokens in it and is added to it.
  at::Tensor forward(const at::Tensor& x, Pass& pass, KeyValueCache::Layer* cache = nullptr) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const;

 private:
  at::Tensor split(const at::Tensor& x) const;  // [B, T, d] → [B, H, T, d_h]
  // Mask and position bias, [H or 1, T, length], of T tokens that are the last of `length`.
  at::Tensor added_logits(const at::Tensor& like, int64_t length) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Pass& pass) const;
  double logit_scale() const {
    return softmax_scale_ * static_cast<double>(heads_) / static_cast<double>(size_);
  }
  UpperBound stretch(const UpperBound& a, const std::vector<double>& scales, Walk& walk) const;

  int64_t heads_;
  int64_t size_;
  double softmax_scale_;
  double dropout_;
  Linear query_;
  Linear key_;
  Linear value_;
  Linear output_;
  Scale output_scale_;
  std::optional<Rope> rope_;
  std::optional<Param> position_bias_;
};

}  // namespace bridle
