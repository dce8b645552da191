// Predictions that provably cannot change: by their margins, for perturbations of pixels (ℓ2) or of embedded tokens (RMS).
//
// Between logits i and j the exact network moves by at most γ·|w_i − w_j|·√d·T·ε_RMS, T the stretch up to the head
// (docs/theory/predictions.md). For an MLP the rounding of a float32 forward pass is taken off the margin, at the clean input
// and at the perturbed one; for a transformer the statement is about exact arithmetic.
#pragma once

#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/loader.h"

namespace bridle {

struct PredictionOptions {
  std::vector<double> epsilons = {};  // empty: a list that fits the kind of model
  double smallest_deviation = 1.0;    // of standardised pixels: the ε are in plain ones
  EvaluationOptions order = {};
};

struct CertifiedShare {
  double epsilon = 0.0;
  double certified = 0.0;           // share of predictions that cannot change
  double certified_accuracy = 0.0;  // share that cannot change and is right
};

struct CertifiedPredictions {
  std::string norm;      // "l2" of all pixels together, or "rms", the largest over tokens
  std::string rounding;  // "accounted" or "excluded"
  int64_t targets = 0;
  double accuracy = 0.0;
  std::vector<CertifiedShare> shares = {};
  at::Tensor predicted = {};  // [targets]
  at::Tensor stands = {};     // [ε, targets]: this prediction cannot change
};

// Throws PromiseError where the model has no bound.
CertifiedPredictions certify_predictions(const Model& model, const std::shared_ptr<const Source>& source,
                                         const PredictionOptions& options, const OnProgress& progress = {});

}  // namespace bridle
