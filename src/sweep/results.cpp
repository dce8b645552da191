// See results.h.
#include "sweep/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

// Those of kLast that are words.
constexpr const char* kWords[] = {"split", "commit", "error"};

// One row's cells; `text` moves past it, and `line` by as many lines as it has. None where a quote is not closed.
std::optional<std::vector<std::string>> next_row(std::string_view& text, int64_t& line) {
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
  line += 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n');
  text.remove_prefix(std::min(text.size(), i + 1));
  return inside ? std::nullopt : std::optional(std::move(cells));
}

std::optional<double> number_from(const std::string& text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && !std::isnan(value) ? std::optional(value) : std::nullopt;
}

bool is_measured(const std::string& column) {
  const auto is = [&column](const char* name) { return column == name; };
  return std::any_of(std::begin(kLast), std::end(kLast), is) &&
         std::none_of(std::begin(kWords), std::end(kWords), is);
}

// What is wrong with a row; empty where nothing is.
std::string flaw_of(const Cells& row, const std::map<std::string, int64_t>& lines) {
  const auto cell = [&row](const char* name) { return row.contains(name) ? row.at(name) : std::string(); };
  const std::string key = cell("key"), status = cell("status");
  if (key.empty()) return "it has no key";
  if (const auto before = lines.find(key); before != lines.end())
    return fmt::format("the key '{}' stands in line {} already", key, before->second);
  if (status != "done" && status != "diverged" && status != "failed")
    return fmt::format("status must be done, diverged or failed, got '{}'", status);
  for (const auto& [column, text] : row)
    if (is_measured(column) && !number_from(text))
      return fmt::format("{} must be a number, got '{}'", column, text);
  return {};
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
  int64_t line = 0;  // that has been read
  const auto header = next_row(text, line);
  const std::vector<std::string> names = header.value_or(std::vector<std::string>());
  const auto has = [&names](const char* name) { return std::count(names.begin(), names.end(), name) == 1; };
  for (const std::string& name : names)
    if (!has(name.c_str()))
      throw InputError(
          "sweep",
          fmt::format("{}: the first line names '{}' twice; mend it, or move the file away", origin, name));
  if (!has("key") || !has("status"))
    throw InputError(
        "sweep",
        fmt::format(
            "{} is no sweep's table: its first line must name key and status, between commas; mend it, "
            "or move it away",
            origin));
  std::vector<Cells> rows;
  std::map<std::string, int64_t> lines;  // of keys
  while (!text.empty()) {
    const int64_t first = line + 1;
    const auto refuse = [&](const std::string& what) {
      throw InputError("sweep", fmt::format("{}, line {}: {}; mend or remove it", origin, first, what));
    };
    const auto cells = next_row(text, line);
    if (!cells) refuse("a quote is not closed");
    if (cells->size() == 1 && cells->front().empty()) continue;
    if (cells->size() != names.size())
      refuse(fmt::format("it has {} cells, and the first line names {}", cells->size(), names.size()));
    Cells row;
    for (size_t i = 0; i < names.size(); ++i)
      if (!(*cells)[i].empty()) row[names[i]] = (*cells)[i];
    if (const std::string flaw = flaw_of(row, lines); !flaw.empty()) refuse(flaw);
    lines[row.at("key")] = first;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<double> number_in(const SweepEntry& entry, const std::string& column) {
  const auto cell = entry.cells.find(column);
  return cell == entry.cells.end() ? std::nullopt : number_from(cell->second);
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
