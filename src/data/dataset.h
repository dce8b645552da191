// A data set's folder: its files, its tokenizer, and dataset.json, which says what they are.
#pragma once

#include <filesystem>

#include "bridle/data.h"

namespace bridle {

constexpr const char* kManifest = "dataset.json";

// Names are folder names: letters, digits, and . _ - inside.
void check_data_name(const std::string& name);

bool data_present(const std::string& name);

// Files inside the folder are written relative to it.
void write_manifest(const DataSet& data, const std::filesystem::path& folder);
DataSet read_manifest(const std::filesystem::path& folder);

// Runs `fill` on an empty folder beside the place of the data set `name`, which fills it and says what it holds, then
// writes the manifest and moves the folder to its place: all of it or nothing. One process at a time. The second folder
// that `fill` gets keeps what should survive an interruption (downloads).
DataSet build_data_set(const std::string& name,
                       const std::function<DataSet(const std::filesystem::path& folder,
                                                   const std::filesystem::path& downloads)>& fill);

}  // namespace bridle
