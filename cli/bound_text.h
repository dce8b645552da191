// A bound in a few characters, never too small.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/display.h"
#include "bridle/certify.h"

namespace bridle {

// Four decimals, rounded up.
inline std::string log_text(double log10) { return fmt::format("{:.4f}", std::ceil(1e4 * log10) / 1e4); }

inline std::string text_of(const StatedBound& bound) {
  return std::isfinite(bound.value) ? shown_upper(bound.value) : "10^" + log_text(bound.log10);
}

inline std::string text_of(const UpperBound& bound) {
  const double value = bound.to_double();
  return std::isfinite(value) ? shown_upper(value) : "10^" + log_text(bound.log10());
}

}  // namespace bridle
