// bridle compare: what differs between runs, and how they ended.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "bound_text.h"
#include "bridle/error.h"
#include "report/comparison.h"
#include "report/sparkline.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::vector<std::string> runs;
  bool json = false;
};

using Cell = std::function<std::string(const ComparedRun&)>;

constexpr const char* kNone = "—";
constexpr size_t kSparkline = 20;

std::string number(const ComparedRun& run, const std::string& key,
                   const std::function<std::string(double)>& text) {
  const auto value = run.outcome.find(key);
  if (value == run.outcome.end() || !value->second.is_number()) return kNone;
  return text(value->second.get<double>());
}

std::string bound(const ComparedRun& run) {
  const auto log10 = run.outcome.find("log10_lipschitz"), value = run.outcome.find("lipschitz");
  const auto is_number = [&run](const auto& entry) {
    return entry != run.outcome.end() && entry->second.is_number();
  };
  if (is_number(value)) return shown_upper(value->second.get<double>());
  return is_number(log10) ? "10^" + log_text(log10->second.get<double>()) : kNone;
}

std::vector<std::pair<std::string, Cell>> outcomes() {
  const auto of = [](const char* key, const std::function<std::string(double)>& text) {
    return [key, text](const ComparedRun& run) { return number(run, key, text); };
  };
  const auto loss = [](double value) { return fmt::format("{:.4f}", value); };
  const auto count = [](double value) { return shown_count(std::llround(value)); };
  return {
      {"status",
       [](const ComparedRun& run) {
         const auto status = run.outcome.find("status");
         return status != run.outcome.end() && status->second.is_string() ? status->second.get<std::string>()
                                                                          : std::string(kNone);
       }},
      {"step", of("step", count)},
      {"loss", of("loss", loss)},
      {"validation loss", of("validation_loss", loss)},
      {"validation accuracy", of("validation_accuracy", shown_percent)},
      {"Lipschitz bound", bound},
      {"observed stretch", of("observed_lipschitz", [](double value) { return shown_lower(value); })},
      {"repairs", of("repairs", count)},
      {"time", of("seconds", shown_time)},
      {"loss over steps", [](const ComparedRun& run) { return sparkline(run.loss.points(), kSparkline); }}};
}

void print(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const Cell& cell) {
    rows.push_back({name});
    for (const ComparedRun& run : comparison.runs) rows.back().push_back(cell(run));
  };
  add("", [](const ComparedRun& run) { return run.name; });
  for (const std::string& key : comparison.differing)
    add(key, [&key](const ComparedRun& run) {
      return run.settings.contains(key) ? run.settings.at(key) : std::string(kNone);
    });
  rows.emplace_back();
  for (const auto& [name, cell] : outcomes()) add(name, cell);
  std::vector<size_t> widths(comparison.runs.size() + 1);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], shown_width(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 < row.size() ? pad_right(row[i], widths[i] + 2) : row[i];
    fmt::print("{}\n", line);
  }
}

Json to_json(const Comparison& comparison) {
  Json runs = Json::array();
  for (const ComparedRun& run : comparison.runs) {
    Json differing = Json::object(), outcome = Json::object();
    for (const std::string& key : comparison.differing)
      differing[key] = run.settings.contains(key) ? Json(run.settings.at(key)) : Json(nullptr);
    for (const auto& [key, value] : run.outcome) outcome[key] = value;
    runs.push_back(
        {{"name", run.name}, {"run", run.folder.string()}, {"settings", differing}, {"outcome", outcome}});
  }
  return {{"schema", 1}, {"differing", comparison.differing}, {"runs", runs}};
}

void compare(const Flags& flags) {
  if (flags.runs.size() < 2)
    throw UsageError("compare", fmt::format("runs must be two or more, got {}", flags.runs.size()));
  const Comparison comparison = compare_runs({flags.runs.begin(), flags.runs.end()});
  if (!flags.json) return print(comparison);
  fmt::print("{}\n", to_json(comparison).dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("compare", "What differs between runs, and how they ended");
  verb->footer("Examples:\n  bridle compare runs/quickstart runs/wide\n  bridle compare runs/* --json");
  auto flags = std::make_shared<Flags>();
  verb->add_option("runs", flags->runs, "Two runs' folders or more")->required()->type_name("RUN");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { compare(*flags); });
}

}  // namespace bridle
