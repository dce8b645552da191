// What a budget chooses of a model, where the recipe allows it: docs/training.md has the rules and their reasons.
#pragma once

#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

struct ChooseOptions {
  std::string keys = {};  // of the model, separated by commas or spaces; "all"; empty: nothing is chosen
  double lipschitz = 0.0;
  double embedding_cap = 1.0;
  std::vector<Role> by_head = {};  // weights that are capped head by head
};

// Throws InputError, naming the nearest known one, for a key that a budget cannot choose.
ModelOptions chosen_for(ModelOptions model, const ChooseOptions& options);

}  // namespace bridle
