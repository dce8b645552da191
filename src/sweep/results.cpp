// See results.h.
#include "sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "bridle/error.h"

namespace bridle {
namespace {

// What every run has, in this order; what grids vary stands between the two.
constexpr const char* kFirst[] = {"key", "group", "status"};
constexpr const char* kLast[] = {"loss",
                                 "accuracy",
                                 "paper_loss",
                                 "paper_accuracy",
                                 "certified_accuracy",
                                 "log10_paper_bound",
                                 "log10_coded_bound",
                                 "log10_bound",
                                 "split",
                                 "train_loss",
                                 "repairs",
                                 "steps",
                                 "seconds",
                                 "commit",
                                 "error"};

bool is_finished(SweepStatus status) {
  return status != SweepStatus::waiting && status != SweepStatus::running;
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

std::vector<std::string> columns_of(const std::vector<SweepEntry>& entries) {
  std::vector<std::string> columns(std::begin(kFirst), std::end(kFirst)),
      last(std::begin(kLast), std::end(kLast));
  std::vector<std::string> varied;
  for (const SweepEntry& entry : entries) {
    for (const auto& [name, cell] : entry.cells) {
      const auto has = [&name = name](const std::vector<std::string>& list) {
        return std::count(list.begin(), list.end(), name) > 0;
      };
      if (!has(columns) && !has(last) && !has(varied)) varied.push_back(name);
    }
  }
  std::sort(varied.begin(), varied.end());
  columns.insert(columns.end(), varied.begin(), varied.end());
  columns.insert(columns.end(), last.begin(), last.end());
  return columns;
}

// One line's cells; `text` moves past it.
std::vector<std::string> next_line(std::string_view& text) {
  std::vector<std::string> cells(1);
  bool inside = false;
  size_t i = 0;
  for (; i < text.size() && (inside || text[i] != '\n'); ++i) {
    const char c = text[i];
    if (c == '"' && inside && i + 1 < text.size() && text[i + 1] == '"') {
      cells.back() += text[++i];
    } else if (c == '"') {
      inside = !inside;
    } else if (c == ',' && !inside) {
      cells.emplace_back();
    } else if (c != '\r' || inside) {
      cells.back() += c;
    }
  }
  text.remove_prefix(std::min(text.size(), i + 1));
  return cells;
}

}  // namespace

std::string sweep_csv(const std::vector<SweepEntry>& entries) {
  const std::vector<std::string> columns = columns_of(entries);
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const SweepEntry& entry : entries) {
    if (!is_finished(entry.status)) continue;
    std::vector<std::string> cells;
    for (const std::string& column : columns)
      cells.push_back(entry.cells.contains(column) ? quoted(entry.cells.at(column)) : "");
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string sweep_json(const std::vector<SweepEntry>& entries) {
  auto runs = nlohmann::ordered_json::array();
  for (const SweepEntry& entry : entries) {
    nlohmann::ordered_json run{{"wanted", entry.wanted}, {"step", entry.step}};
    for (const auto& [name, cell] : entry.cells) {
      const auto value = nlohmann::ordered_json::parse(cell, nullptr, /*allow_exceptions=*/false);
      run[name] = value.is_number() ? value : nlohmann::ordered_json(cell);
    }
    runs.push_back(std::move(run));
  }
  return nlohmann::ordered_json{{"schema", 1}, {"runs", runs}}.dump(2) + "\n";
}

std::vector<Cells> parse_csv(std::string_view text, const std::string& origin) {
  const std::vector<std::string> names = next_line(text);
  const auto has = [&names](const char* name) { return std::count(names.begin(), names.end(), name) == 1; };
  if (!has("key") || !has("status"))
    throw InputError(
        "sweep",
        fmt::format(
            "{} is no sweep's table: its first line must name key and status, between commas; mend it, "
            "or move it away",
            origin));
  std::vector<Cells> rows;
  for (int line = 2; !text.empty(); ++line) {
    const std::vector<std::string> cells = next_line(text);
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (cells.size() != names.size())
      throw InputError("sweep",
                       fmt::format("{}, line {} has {} cells, and the first line names {}: mend or remove it",
                                   origin, line, cells.size(), names.size()));
    Cells& row = rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i)
      if (!cells[i].empty()) row[names[i]] = cells[i];
  }
  return rows;
}

std::optional<double> number_in(const SweepEntry& entry, const std::string& column) {
  const auto cell = entry.cells.find(column);
  double value = 0.0;
  if (cell == entry.cells.end()) return std::nullopt;
  const char* end = cell->second.data() + cell->second.size();
  const auto [rest, error] = std::from_chars(cell->second.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::optional<double> sweep_seconds_left(const std::vector<SweepEntry>& entries, int workers) {
  struct Pace {
    double seconds = 0.0, steps = 0.0;
  };
  std::map<std::string, Pace> by_group;
  Pace all;
  for (const SweepEntry& entry : entries) {
    const auto seconds = number_in(entry, "seconds");
    if (entry.status != SweepStatus::done || entry.steps <= 0 || !seconds) continue;
    for (Pace* pace : {&by_group[entry.group], &all}) {
      pace->seconds += *seconds;
      pace->steps += static_cast<double>(entry.steps);
    }
  }
  if (all.steps == 0.0) return std::nullopt;
  double seconds = 0.0;
  int left = 0;
  for (const SweepEntry& entry : entries) {
    if (!entry.wanted || is_finished(entry.status)) continue;
    const auto own = by_group.find(entry.group);
    const Pace& pace = own == by_group.end() ? all : own->second;
    seconds += static_cast<double>(entry.steps - entry.step) * pace.seconds / pace.steps;
    ++left;
  }
  return left == 0 ? 0.0 : seconds / std::min(workers, left);
}

}  // namespace bridle
