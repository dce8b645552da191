// Predictions that provably cannot change: by their margins, for perturbations of pixels (ℓ2) or of embedded tokens (RMS).
//
// Between logits i and j the exact network moves by at most γ·|w_i − w_j| times what its head's input moves. From the margin of a
// float64 pass its own rounding is taken, and for the statements about programs theirs as well, at the clean input and at
// the perturbed one: docs/theory/predictions.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/loader.h"
#include "bridle/nn.h"
#include "bridle/progress.h"

namespace bridle {

struct PredictionOptions {
  std::vector<double> epsilons = {};                   // empty: a list that fits the kind of model
  std::optional<ChannelStatistics> standardised = {};  // of the model's pixels: the ε are in plain ones
  EvaluationOptions order = {};
};

struct CertifiedShare {
  double epsilon = 0.0;
  double certified = 0.0;           // share of predictions that cannot change
  double certified_accuracy = 0.0;  // share that cannot change and is right
};

// Which function cannot change its prediction: the network in exact arithmetic ("exact"), or what LibTorch's operators
// compute of it in float32 or bfloat16 ("float32", "bfloat16").
struct CertifiedFunction {
  std::string function;
  std::vector<CertifiedShare> shares = {};
  at::Tensor stands = {};  // [ε, targets]: this prediction cannot change
};

struct CertifiedPredictions {
  std::string norm;  // "l2" of all pixels together, or "rms", the largest over tokens
  int64_t targets = 0;
  double accuracy = 0.0;      // of `predicted`
  at::Tensor predicted = {};  // [targets], by a float64 pass
  std::vector<CertifiedFunction> functions = {};

  const CertifiedFunction& of(const std::string& function) const;
};

// Computed on the CPU in float64, wherever the model is. Throws PromiseError where the model has no bound.
CertifiedPredictions certify_predictions(const Model& model, const std::shared_ptr<const Source>& source,
                                         const PredictionOptions& options = {},
                                         const OnProgress& progress = {});

}  // namespace bridle
