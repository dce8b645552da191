// Bound: what is known of a signal on its way through a network. `activation` bounds its norm (the largest
// RMS over tokens) and `lipschitz` bounds how much a change of the network's input is stretched up to here.
// Every module maps a Bound to a Bound.
#pragma once

#include "bridle/upper_bound.h"

namespace bridle {

struct Bound {
  UpperBound activation = 1.0;
  UpperBound lipschitz = 1.0;

  // After x ↦ Ax + b with ‖Ax‖ ≤ gain·‖x‖ and ‖b‖ ≤ offset.
  Bound affine(const UpperBound& gain, const UpperBound& offset = 0.0) const {
    return {.activation = gain * activation + offset, .lipschitz = gain * lipschitz};
  }

  friend bool operator==(const Bound&, const Bound&) = default;
};

}  // namespace bridle
