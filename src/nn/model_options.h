// The keys of models, for recipes and config.json, and what both kinds of options share.
#pragma once

#include <cmath>
#include <string>

#include "base/settings.h"
#include "bridle/architecture.h"

namespace bridle {

// Of one kind, as config.json has them.
Settings model_settings(ModelOptions& options);

// Of both kinds, as a recipe has them, with `kind`.
Settings recipe_settings(ModelRecipe& recipe, const std::string& prefix);

// ---- For the options of each kind
constexpr int64_t kLargestSize = int64_t{1} << 24U;  // of anything that is counted: products of two fit

constexpr Range kCount{[](double x) { return x >= 1 && x <= double{kLargestSize}; }, "from 1 to 16777216"};
constexpr Range kCountOrNone{[](double x) { return x >= 0 && x <= double{kLargestSize}; },
                             "from 0 to 16777216"};
constexpr Range kPositive{[](double x) { return x > 0.0 && std::isfinite(x); }, "positive"};
constexpr Range kNotNegative{[](double x) { return x >= 0.0 && std::isfinite(x); }, "zero or positive"};
constexpr Range kShare{[](double x) { return x >= 0.0 && x < 1.0; }, "at least 0 and below 1"};
constexpr Range kFinite{[](double x) { return std::isfinite(x); }, "finite"};

Setting initialization_setting(Initialization& place);
Setting final_scale_setting(double& place);

// Throws InputError.
void require(bool condition, const std::string& message);

}  // namespace bridle
