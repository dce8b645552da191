// CSV as RFC 4180 has it: a line of names, commas, quotes doubled inside quotes, lines ending in LF or CRLF.
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/files.h"
#include "base/nearest.h"
#include "bridle/error.h"
#include "data/table.h"

namespace bridle {
namespace {

constexpr size_t kMostClasses = 10000;

[[noreturn]] void refuse(const std::string& what) { throw InputError("data import", what); }

// Field by field; knows the line it is in.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  int64_t line() const { return begins_; }

  // The fields of the next line that is not empty; false at the end.
  bool next(std::vector<std::string>& fields) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n")) {
      at_ += text_[at_] == '\n' ? 1 : 2;
      ++line_;
    }
    fields.clear();
    if (at_ == text_.size()) return false;
    begins_ = line_;
    while (true) {
      fields.push_back(field());
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      if (text_.substr(at_, 2) == "\r\n") ++at_;
      if (at_ < text_.size() && text_[at_] != '\n')
        refuse(fmt::format("line {}: text after a closing quote", line_));
      if (at_ < text_.size()) ++at_;
      ++line_;
      return true;
    }
  }

 private:
  std::string field() {
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    const size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string_view own = text_.substr(at_, end - at_);
    at_ = end;
    if (own.ends_with('\r')) {
      own.remove_suffix(1);
    }
    if (own.find('"') != std::string_view::npos)
      refuse(fmt::format("line {}: a quote inside a field that has none around it", line_));
    return std::string(own);
  }

  std::string quoted() {
    std::string own;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (text_.substr(at_, 2) != "\"\"") {
          ++at_;
          return own;
        }
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      own += text_[at_];
    }
    refuse(fmt::format("line {}: a quote that is never closed", begins_));
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1, begins_ = 1;
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

bool parse(std::string_view text, double& value) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

size_t place_of(const std::vector<std::string>& names, const std::string& name, const std::string& path) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    refuse(fmt::format("{}: there is no column '{}'; did you mean '{}'?", path, name,
                       nearest_word(name, names)));
  return static_cast<size_t>(found - names.begin());
}

at::Tensor matrix(const std::vector<double>& values, int64_t columns) {
  return at::tensor(values, at::kDouble).view({-1, columns});
}

}  // namespace

at::Tensor classes_of(const std::vector<std::string>& texts, std::vector<std::string>& names) {
  const std::set<std::string> distinct(texts.begin(), texts.end());
  names.assign(distinct.begin(), distinct.end());
  if (names.size() < 2)
    refuse(fmt::format("there must be at least two classes, and all of {} examples have the same",
                       texts.size()));
  if (names.size() > kMostClasses)
    refuse(fmt::format(
        "there are {} different targets, more than {} classes: pass --regression where they are numbers to "
        "predict",
        names.size(), kMostClasses));
  double value = 0.0;
  if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return parse(name, value); }))
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      double first = 0.0, second = 0.0;
      parse(a, first);
      parse(b, second);
      return first != second ? first < second : a < b;
    });
  std::map<std::string, int64_t> places;
  for (size_t i = 0; i < names.size(); ++i) places[names[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> classes;
  classes.reserve(texts.size());
  for (const std::string& text : texts) classes.push_back(places.at(text));
  return at::tensor(classes, at::kLong);
}

Table read_csv(const VectorImport& options) {
  const std::string path = options.csv.string();
  const std::string text = read_file(options.csv);
  CsvReader reader(text);
  std::vector<std::string> names, fields, targets;
  if (!reader.next(names)) refuse(fmt::format("{} must have a line of column names, and is empty", path));
  for (std::string& name : names) name = trimmed(name);
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size())
    refuse(fmt::format("{}: a column's name comes twice: {}", path, fmt::join(names, ", ")));
  const size_t target = place_of(names, options.target, path);
  std::vector<bool> is_input(names.size(), true);
  is_input[target] = false;
  for (const std::string& name : options.leave_out) is_input[place_of(names, name, path)] = false;
  Table table{.outputs = {options.target}};
  for (size_t i = 0; i < names.size(); ++i)
    if (is_input[i]) table.columns.push_back(names[i]);
  if (table.columns.empty())
    refuse(fmt::format("{}: no column is left to predict '{}' from", path, options.target));
  std::vector<double> values, numbers;
  while (reader.next(fields)) {
    if (fields.size() != names.size())
      refuse(fmt::format("{}, line {}: {} fields, and {} columns have names", path, reader.line(),
                         fields.size(), names.size()));
    for (size_t i = 0; i < fields.size(); ++i) {
      double value = 0.0;
      if (i == target && !options.regression) {
        targets.emplace_back(trimmed(fields[i]));
        if (targets.back().empty())
          refuse(fmt::format("{}, line {}: '{}' is empty", path, reader.line(), names[i]));
        continue;
      }
      if (!is_input[i] && i != target) continue;
      if (!parse(fields[i], value))
        refuse(fmt::format(
            "{}, line {}: '{}' must be a finite number, got '{}'; leave the column out with --leave-out, or "
            "encode it",
            path, reader.line(), names[i], fields[i].substr(0, 60)));
      (i == target ? numbers : values).push_back(value);
    }
  }
  if (values.empty()) refuse(fmt::format("{} has names of columns and no line of numbers", path));
  table.inputs = matrix(values, static_cast<int64_t>(table.columns.size()));
  table.targets = options.regression ? matrix(numbers, 1) : classes_of(targets, table.outputs);
  return table;
}

}  // namespace bridle
