// From what a method does to a norm in one step, the norm that it keeps for ever.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bridle/constraint.h"

namespace bridle {

// The least s ≥ start, to rounding, with after_step(s) ≤ s; none below 10⁶·start. `after_step` bounds the
// norm after a step and a projection of a weight of norm s, and must not decrease.
std::optional<double> invariant_norm(double start, const std::function<double(double)>& after_step);

inline Guarantee no_guarantee(std::string reason) { return {std::nullopt, std::move(reason)}; }

}  // namespace bridle
