// y = Wx (+ b).   ‖y‖ ≤ ‖W‖·‖x‖ + ‖b‖ in RMS norms, ‖W‖ = σ(W)·√(in/out).
#pragma once

#include <optional>

#include "nn/enclosure.h"
#include "nn/weights.h"

namespace bridle {

struct LinearOptions {
  Role role = Role::linear;
  int64_t out = 0;
  int64_t in = 0;
  bool bias = false;
  int64_t heads = 1;   // equal row blocks that belong to heads
  int64_t fan_in = 0;  // see Param
  bool apart = false;  // see Weights::MatrixShape
};

class Linear {
 public:
  Linear(Weights& weights, const std::string& name, const LinearOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, Walk& walk) const;
  Enclosure enclose(const Enclosure& x, ErrorWalk& walk) const { return enclose_heads(x, 0, walk); }
  // In equal row blocks, [B, heads, T, out/heads].
  Enclosure enclose_heads(const Enclosure& x, int64_t heads, ErrorWalk& walk) const {
    return enclose_product(x, weight_, bias_ ? &*bias_ : nullptr, heads, walk);
  }

  const Param& weight() const { return weight_; }
  const std::optional<Param>& bias() const { return bias_; }
  std::vector<Param> biases() const { return bias_ ? std::vector{*bias_} : std::vector<Param>{}; }

 private:
  Param weight_;
  std::optional<Param> bias_;
};

// |w·x| for any row w of a matrix, where the stretch up to x is `stretch`: |w| ≤ √in·(largest row RMS) and |x| ≤ √in·‖x‖.
UpperBound one_logit(const UpperBound& stretch, const UpperBound& largest_row_rms, int64_t in);

// √(a/b), rounded up.
UpperBound root_of_ratio(int64_t a, int64_t b);

}  // namespace bridle
