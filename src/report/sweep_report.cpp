#include "report/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/files.h"
#include "bridle/error.h"
#include "sweep/results.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Settings stand between these two, sorted; what else there is comes last.
constexpr const char* kFirst[] = {"key", "group", "status", "loss", "log10_bound", "accuracy"};
constexpr const char* kLast[] = {"certified_accuracy",
                                 "paper_loss",
                                 "paper_accuracy",
                                 "log10_paper_bound",
                                 "log10_coded_bound",
                                 "train_loss",
                                 "repairs",
                                 "steps",
                                 "seconds",
                                 "split",
                                 "commit",
                                 "error"};

bool is_setting(const std::string& name) { return name.find('.') != std::string::npos; }

std::vector<std::string> columns_of(const std::vector<Cells>& rows) {
  std::set<std::string> present;
  for (const Cells& row : rows)
    for (const auto& [name, cell] : row) present.insert(name);
  std::vector<std::string> columns;
  const auto take = [&](const std::string& name) {
    if (present.erase(name) > 0) columns.push_back(name);
  };
  for (const char* name : kFirst) take(name);
  for (const std::string& name : std::set<std::string>(present))
    if (is_setting(name)) take(name);
  for (const char* name : kLast) take(name);
  columns.insert(columns.end(), present.begin(), present.end());
  return columns;
}

// The whole cell as a finite number, or null.
Json number_from(const std::string& cell) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return nullptr;
  return value;
}

bool holds_numbers(const std::vector<Cells>& rows, const std::string& name) {
  const std::set<std::string> words = {"key", "group", "status", "split", "commit", "error"};
  return !words.contains(name) && std::all_of(rows.begin(), rows.end(), [&](const Cells& row) {
    const auto cell = row.find(name);
    return cell == row.end() || !number_from(cell->second).is_null();
  });
}

Json rows_of(const std::vector<Cells>& rows, const Json& columns) {
  Json all = Json::array();
  for (const Cells& row : rows) {
    Json cells = Json::array();
    for (const Json& column : columns) {
      const auto cell = row.find(column["name"].get<std::string>());
      if (cell == row.end())
        cells.push_back(nullptr);
      else
        cells.push_back(column["number"] ? number_from(cell->second) : Json(cell->second));
    }
    all.push_back(std::move(cells));
  }
  return all;
}

fs::path results_of(const fs::path& file) {
  if (file.extension() != ".toml") return file;
  const fs::path results = read_sweep(file).results;
  if (fs::exists(results)) return results;
  throw InputError("report", fmt::format("{} has no results yet: {} is missing; run bridle sweep {} first",
                                         file.string(), results.string(), file.string()));
}

}  // namespace

nlohmann::ordered_json sweep_report(const fs::path& file) {
  const fs::path results = results_of(file);
  const std::vector<Cells> rows = parse_csv(read_file(results), results.string());
  Json columns = Json::array();
  for (const std::string& name : columns_of(rows))
    columns.push_back({{"name", name}, {"number", holds_numbers(rows, name)}, {"setting", is_setting(name)}});
  Json all = rows_of(rows, columns);
  return {{"file", results.string()}, {"columns", std::move(columns)}, {"rows", std::move(all)}};
}

}  // namespace bridle
