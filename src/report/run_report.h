// A run's folder as data for the page: docs/how-to/report.md has the keys. What a folder lacks is left out; what is damaged is named in
// "problems", so that one bad file does not hide the rest.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "report/run_metrics.h"

namespace bridle {

bool is_run(const std::filesystem::path& folder);  // has config.toml or metrics.jsonl

// Throws InputError for a folder that is no run. A reader that is kept reads what is new in metrics.jsonl alone.
nlohmann::ordered_json run_report(const std::filesystem::path& folder);
nlohmann::ordered_json run_report(const std::filesystem::path& folder, MetricsReader& reader);

}  // namespace bridle
