// A search for the two inputs of the domain whose difference the model stretches most: a lower bound of its Lipschitz
// constant, to hold beside the upper one. It is evidence, not a proof: the true constant lies between the two.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "bridle/nn.h"
#include "bridle/progress.h"

namespace bridle {

// Squares of far smaller inputs would underflow.
constexpr double kLeastSearchDomain = 1e-100;

struct SearchOptions {
  double domain = 1.0;          // norm of both inputs: the largest RMS over tokens
  int64_t sequence_length = 8;  // transformers
  int starts = 4;               // random and structured ones, climbed side by side
  int rounds = 60;              // of ascent, a forward and a backward pass each
  uint64_t seed = 0;
  OnProgress on_progress = {};
};

// Norms are the largest RMS over tokens; everything is in float64, whatever the weights' precision.
struct ObservedStretch {
  double lipschitz = 0.0;      // ‖f(x) − f(x′)‖/‖x − x′‖
  double largest_logit = 0.0;  // max|f(x) − f(x′)|/‖x − x′‖
  at::Tensor first, second;    // x and x′ of `lipschitz`: [1, T, d] or [1, D], both inside the domain
  at::Tensor logit_first, logit_second;  // and of `largest_logit`
};

// Both ratios are those of the inputs given beside them, rounded down with the forward pass's own error taken off: lower
// bounds of the Lipschitz constant. They depend on the weights and the options alone; the weights and their gradients stay as they are. Throws InputError for options
// that make no sense, NumericError where the model's outputs are not finite.
ObservedStretch search_stretch(const Model& model, const SearchOptions& options);

}  // namespace bridle
