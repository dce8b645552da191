// The keys of a recipe.
#pragma once

#include "base/settings.h"
#include "bridle/train.h"

namespace bridle {

Settings run_settings(RunOptions& options);

SourceOptions source_options(const RunOptions& options);

// "optimizer.lr = 0.3 instead of 0.5; …": where the first differ from the second; empty where they do not.
std::string differing_settings(RunOptions first, RunOptions second);

// Refuses a config.toml that is not the copy in a checkpoint, naming the keys; a key that is newer than the copy may have any value.
void check_copy(const RunOptions& config, const std::string& copy, const std::filesystem::path& path);

Order order_named(const std::string& name);  // throws InputError

}  // namespace bridle
