// Attacks on a classifier of images: what an adversary reaches within ε (ℓ2 over all pixels, in plain units), beside what is
// certified there.
//
// Two adversaries that share nothing: one climbs gradients, from several points towards several classes, with a step size that is searched; the
// other sees logits alone and tries cosine waves. What they find is counted only if float32 says so, at a distance measured in
// float64. Reaching a prediction that is certified throws: docs/theory/predictions.md
#pragma once

#include <optional>
#include <vector>

#include "bridle/loader.h"
#include "bridle/nn.h"
#include "bridle/progress.h"

namespace bridle {

struct AttackOptions {
  std::vector<double> epsilons = {};  // ascending; empty: 36/255 and 0.25 to 4
  int64_t images = 2000;              // the first ones
  int restarts = 4;                   // the first climbs the cross-entropy, the others towards a class each
  int steps = 40;                     // of each climb
  int queries = 200;  // waves of the adversary without gradients, each tried both ways; 0: it stays away
  bool box = true;    // pixels stay in [0, 1]
  int64_t examples = 8;
  uint64_t seed = 0;
  std::optional<ChannelStatistics> standardised =
      std::nullopt;  // what the model's pixels were standardised by
};

// Shares of the images; a smaller ε's success is one for a larger ε too.
struct AttackPoint {
  double epsilon = 0.0;
  double accuracy = 0.0;              // under both
  double accuracy_by_gradient = 0.0;  // under each alone
  double accuracy_by_search = 0.0;
  double probability = 0.0;  // mean of the right class, the least that was found
  double certified_accuracy = 0.0;
};

struct AttackResult {
  int64_t images = 0;
  double accuracy = 0.0;
  double probability = 0.0;
  std::vector<AttackPoint> points = {};
  at::Tensor broken = {};    // [ε, images]: was right, and is not any more
  at::Tensor examples = {};  // [1 + ε, examples, pixels] plain: as they are, and at their worst
};

// Throws InputError for a model of text; PromiseError where the model has no bound, and where an attack changes
// a certified prediction.
AttackResult attack(const Model& model, const std::shared_ptr<const Source>& source,
                    const AttackOptions& options, const OnProgress& progress = {});

}  // namespace bridle
