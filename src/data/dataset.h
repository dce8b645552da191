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
// Throws InputError where the manifest is damaged, or a file of the folder is missing or has another size than it had.
DataSet read_manifest(const std::filesystem::path& folder);

// What to do where a data set of this name is there already.
enum class IfPresent { keep, refuse, replace };  // keep: unless it is damaged

struct BuildOptions {
  std::string name;
  IfPresent if_present = IfPresent::refuse;
  std::function<void(const std::string&)> note = {};
};

using Fill =
    std::function<DataSet(const std::filesystem::path& folder, const std::filesystem::path& downloads)>;

// Runs `fill` on an empty folder beside the place of the data set, which fills it and says what it holds, then writes
// the manifest and moves the folder to its place: all of it or nothing. One process at a time. `downloads` is a folder
// whose files survive an interruption. A folder of this name that is no data set is never touched.
DataSet build_data_set(const BuildOptions& options, const Fill& fill);

}  // namespace bridle
