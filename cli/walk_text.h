// Where a bound goes, layer by layer, as a table with bars.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "bound_text.h"
#include "bridle/certificate_file.h"

namespace bridle {

inline void print_layers(const Certificate& certificate) {
  fmt::print("\n{:<30}{:>14}{:>14}   {}\n", "after", "activation", "bound", "share of log L");
  double before = 0.0;
  for (const StatedLayer& layer : certificate.bound.layers) {
    const double share = layer_share(layer.lipschitz.log10, before, certificate.bound.lipschitz.log10);
    const double part = std::isfinite(share) ? share : 0.0;
    before = layer.lipschitz.log10;
    std::string bar;
    for (int block = 0; block < static_cast<int>(std::lround(40.0 * std::clamp(part, 0.0, 1.0))); ++block)
      bar += "█";
    fmt::print("{:<30}{:>14}{:>14}   {:>6.1f} % {}\n", layer.name, text_of(layer.activation),
               text_of(layer.lipschitz), 100.0 * part, bar);
  }
}

}  // namespace bridle
