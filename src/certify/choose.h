// What a budget chooses of a model, where the recipe allows it: docs/training.md has the rules and their reasons.
#pragma once

#include <string>

#include "bridle/nn.h"

namespace bridle {

// `keys` are keys of the model, separated by commas or spaces; "all"; empty: nothing is chosen. Throws InputError, naming
// the nearest known one, for a key that a budget cannot choose.
ModelOptions chosen_for_budget(ModelOptions model, const std::string& keys);

}  // namespace bridle
