// How far apart a model and one with other matrices and tables can be, on the whole domain: docs/theory/deviation.md. The two
// have the same options and the same of everything else (biases, gains, scales, position biases).
#pragma once

#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/nn.h"

namespace bridle {

struct DeviationLayer {
  std::string name;
  StatedBound deviation;  // RMS of the two signals' difference, the largest over tokens
};

struct DeviationBound {
  double domain_radius =
      0.0;  // of inputs of both: of embedded tokens, whose rows may differ too, or of vectors
  StatedBound deviation = {};      // RMS of the difference of the logits
  StatedBound largest_logit = {};  // of any one of them
  std::vector<DeviationLayer> layers = {};
};

// Throws InputError for models that differ in something else, or that no options describe; PromiseError where no bound can be
// established.
DeviationBound deviation_bound(const Model& original, const Model& changed);

}  // namespace bridle
