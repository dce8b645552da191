// The keys of models, for recipes and config.json.
#pragma once

#include <string>

#include "base/settings.h"
#include "bridle/architecture.h"

namespace bridle {

// Of one kind, as config.json has them.
Settings model_settings(ModelOptions& options);

// Of both kinds, as a recipe has them, with `kind`.
Settings recipe_settings(ModelRecipe& recipe, const std::string& prefix);

}  // namespace bridle
