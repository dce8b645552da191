// See certificate_text.h.
#include "certificate_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "bound_text.h"

namespace bridle {
namespace {

constexpr size_t kMostRows = 20;  // of a table: a summary fits a screen

void print_line(const char* what, const std::string& value) { fmt::print("{:<18}{}\n", what, value); }

std::vector<double> shares_of(const CertifiedBound& bound) {
  std::vector<double> shares;
  double before = 0.0;
  for (const StatedLayer& layer : bound.layers) {
    const double share = layer_share(layer.lipschitz.log10, before, bound.lipschitz.log10);
    shares.push_back(std::isfinite(share) ? share : 0.0);
    before = layer.lipschitz.log10;
  }
  return shares;
}

// From so large a share on a layer has its row.
double least_share_shown(std::vector<double> shares) {
  if (shares.size() <= kMostRows) return -std::numeric_limits<double>::infinity();
  const auto last = shares.begin() + kMostRows - 1;
  std::nth_element(shares.begin(), last, shares.end(), std::greater<>());
  return *last;
}

}  // namespace

void print_layers(const Certificate& certificate) {
  const std::vector<StatedLayer>& layers = certificate.bound.layers;
  const std::vector<double> shares = shares_of(certificate.bound);
  const double least = least_share_shown(shares);
  size_t name = 5;
  for (const StatedLayer& layer : layers) name = std::max(name, layer.name.size());
  fmt::print("\n{:<{}}{:>12}{:>12}  {}\n", "after", name, "activation", "bound", "share of log L");
  size_t rows = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (shares[i] < least || rows == kMostRows) continue;
    ++rows;
    const double percent =
        std::round(1000.0 * shares[i]) / 10.0 + 0.0;  // a small negative share is 0.0, not -0.0
    std::string bar;
    for (long block = std::lround(30.0 * std::clamp(shares[i], 0.0, 1.0)); block > 0; --block) bar += "█";
    fmt::print("{:<{}}{:>12}{:>12}{:>8.1f} % {}\n", layers[i].name, name, text_of(layers[i].activation),
               text_of(layers[i].lipschitz), percent, bar);
  }
  if (rows < layers.size())
    fmt::print("and {} layers with smaller shares, which --json prints\n", layers.size() - rows);
}

void print_certificate(const Certificate& certificate) {
  const CertifiedBound& bound = certificate.bound;
  print_line("Lipschitz bound", fmt::format("{}   log10 {}   RMS → RMS, the largest over tokens",
                                            text_of(bound.lipschitz), log_text(bound.lipschitz.log10)));
  print_line("any one logit", fmt::format("{}   RMS → its absolute change", text_of(bound.largest_logit)));
  print_line("holds for", fmt::format("inputs of norm up to {} ({} as stored, moved by up to {})",
                                      shown_lower(bound.domain_radius), shown_lower(bound.token_radius),
                                      shown_lower(bound.attack_radius)));
  if (certificate.observed && *certificate.observed > 0.0)
    print_line("observed", fmt::format("{}, the most that a search found; the bound is {} times that",
                                       shown_lower(*certificate.observed),
                                       shown(bound.lipschitz.value / *certificate.observed)));
  print_layers(certificate);
}

}  // namespace bridle
