// The keys of a recipe.
#pragma once

#include "base/settings.h"
#include "bridle/train.h"

namespace bridle {

Settings run_settings(RunOptions& options);

SourceOptions source_options(const RunOptions& options);

Order order_named(const std::string& name);  // throws InputError

}  // namespace bridle
