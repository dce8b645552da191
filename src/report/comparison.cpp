#include "report/comparison.h"

#include <set>

#include "report/run_metrics.h"
#include "report/run_names.h"
#include "report/run_report.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

ComparedRun compared(const fs::path& folder, const std::string& name) {
  const Json report = run_report(folder);
  ComparedRun run{.name = name, .folder = folder, .settings = {}, .outcome = {}, .loss = ThinnedSeries()};
  const auto part = [&report](const char* key) {
    return report.contains(key) ? report[key] : Json::object();
  };
  const Json settings = part("settings"), certificate = part("certificate"), info = part("info");
  for (const auto& [key, value] : settings.items()) run.settings[key] = value.get<std::string>();
  const RunMetrics metrics = read_metrics(folder / "metrics.jsonl");
  run.outcome = metrics.last;
  if (const auto loss = metrics.series.find("loss"); loss != metrics.series.end()) run.loss = loss->second;
  for (const char* key : {"lipschitz", "log10_lipschitz", "observed_lipschitz"})
    if (certificate.contains(key)) run.outcome[key] = certificate[key];
  run.outcome["certificate"] = report.contains("certificate");
  if (info.contains("status")) run.outcome["status"] = info["status"];
  return run;
}

}  // namespace

Comparison compare_runs(const std::vector<fs::path>& folders) {
  Comparison comparison;
  const std::vector<std::string> names = run_names(folders);
  std::set<std::string> keys;
  for (size_t i = 0; i < folders.size(); ++i) {
    comparison.runs.push_back(compared(folders[i], names[i]));
    for (const auto& [key, value] : comparison.runs.back().settings) keys.insert(key);
  }
  for (const std::string& key : keys) {
    std::set<std::string> values;
    for (const ComparedRun& run : comparison.runs)
      values.insert(run.settings.contains(key) ? "=" + run.settings.at(key) : "");
    if (values.size() > 1) comparison.differing.push_back(key);
  }
  return comparison;
}

}  // namespace bridle
