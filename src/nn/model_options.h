// The keys of a model, for recipes and config.json.
#pragma once

#include <string>

#include "base/settings.h"
#include "bridle/nn.h"

namespace bridle {

Settings model_settings(ModelOptions& options, const std::string& prefix = "");

}  // namespace bridle
