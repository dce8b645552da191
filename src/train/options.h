// The keys of a recipe.
#pragma once

#include "base/settings.h"
#include "bridle/train.h"

namespace bridle {

Settings run_settings(RunOptions& options);

// For a model and data that no recipe names: all that `resolved` does to the rest.
RunOptions resolved_for(RunOptions options, InputKind input);

// config.toml of such a run: without [model] and what [data] says of a data set. Throws InputError where the file is that of a
// recipe's run, or a key is missing.
std::string config_without_recipe(const RunOptions& options);
RunOptions read_config_without_recipe(const std::filesystem::path& path);

// What read_config does with a file's text; `path` is for messages.
RunOptions config_from(const std::string& text, const std::filesystem::path& path);

SourceOptions source_options(const RunOptions& options);

// "optimizer.lr = 0.3 instead of 0.5; …": where the first differ from the second; empty where they do not.
std::string differing_settings(RunOptions first, RunOptions second);

// Refuses a config.toml that is not the copy in a checkpoint, naming the keys; a key that is newer than the copy may have any value.
void check_copy(const RunOptions& config, const std::string& copy, const std::filesystem::path& path);

}  // namespace bridle
