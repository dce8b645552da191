// Rotary positions in the half-split form: for head size h and i < h/2, the pair (x_i, x_{i+h/2}) at position t is turned by
// the angle t·θ^(−2i/h). A rotation of every token and head: norms stay.
#pragma once

#include <cstdint>

#include "nn/enclosure.h"

namespace bridle {

class Rope {
 public:
  Rope(int64_t head_size, double theta) : head_size_(head_size), theta_(theta) {}
  at::Tensor forward(const at::Tensor& x,
                     int64_t first = 0) const;  // [B, H, T, h], positions first … first + T − 1
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;  // from position 0
  double theta() const { return theta_; }

 private:
  int64_t head_size_;
  double theta_;
};

}  // namespace bridle
