// Rotary positions in the half-split form: for head size h and i < h/2, the pair (x_i, x_{i+h/2}) at position t is turned by
// the angle t·θ^(−2i/h). Half-truncated: by t·θ^(−i/(h/4 − 1)) for i < h/4, and not at all from there on. A rotation of every token
// and head: norms stay.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/enclosure.h"

namespace bridle {

struct RopeOptions {
  int64_t head_size = 0;
  double theta = 10000.0;
  bool half_truncated = false;
};

// The angle of a step from a token to the next, for each of the h/2 pairs.
std::vector<double> rope_frequencies(const RopeOptions& options);

class Rope {
 public:
  explicit Rope(const RopeOptions& options) : options_(options) {}
  at::Tensor forward(const at::Tensor& x,
                     int64_t first = 0) const;  // [B, H, T, h], positions first … first + T − 1
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;  // from position 0
  const RopeOptions& options() const { return options_; }

 private:
  RopeOptions options_;
};

}  // namespace bridle
