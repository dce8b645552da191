// Runs side by side: the settings in which they differ, and how they ended.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/thinned_series.h"

namespace bridle {

struct ComparedRun {
  std::string name;
  std::filesystem::path folder;
  std::map<std::string, std::string> settings;  // section.key
  std::map<std::string, nlohmann::json>
      outcome;  // numbers by the keys of metrics.jsonl and certificate.json; status
  ThinnedSeries loss;
};

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<std::string> differing;  // settings, sorted
};

// Throws InputError for a folder that is no run.
Comparison compare_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace bridle
