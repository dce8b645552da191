// What a budget chooses of a model, where the recipe allows it: docs/training.md has the rules and their reasons.
#pragma once

#include <string>

#include "bridle/architecture.h"

namespace bridle {

// `keys` are keys of the model, separated by commas or spaces; "all"; empty: nothing is chosen. Throws InputError, naming
// the nearest known one, for a key that a budget cannot choose.
ModelRecipe chosen_for_budget(ModelRecipe recipe, const std::string& keys);

}  // namespace bridle
