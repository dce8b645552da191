// A sweep's results as data for the page: columns with what they hold, and rows of cells.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace bridle {

// Of SWEEP.toml, or of the CSV file that it writes. Throws InputError.
nlohmann::ordered_json sweep_report(const std::filesystem::path& file);

}  // namespace bridle
