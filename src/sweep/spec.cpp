// A sweep's file: groups, each with a recipe, fixed settings and grids.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/checksum.h"
#include "base/files.h"
#include "base/nearest.h"
#include "base/toml_text.h"
#include "bridle/error.h"
#include "bridle/sweep.h"
#include "bridle/train.h"
#include "sweep/spread.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

using Values = std::map<std::string, std::string>;  // by setting, as --set has them

constexpr int64_t kMostRuns = 100'000;  // of a file
constexpr double kLargestGrid = 1e12;   // points, of which `take` may name some

struct Group {
  std::string name;
  fs::path recipe;
  Values set;
  std::vector<std::pair<std::string, std::vector<std::string>>> grid;
  int64_t take = 0;  // 0: every combination
};

class Reader {
 public:
  explicit Reader(fs::path file) : file_(std::move(file)) {}
  Sweep read();

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError("sweep", fmt::format("{}: {}", file_.string(), what));
  }
  void check_keys(const toml::table& table, const std::vector<std::string>& known,
                  const std::string& where) const;
  template <class T>
  T value(const toml::table& table, const char* key, T fallback) const;
  Values fixed(const toml::table& table, const std::string& where) const;
  std::vector<std::string> tried(const toml::node& node, const std::string& key) const;
  std::vector<std::string> spaced(const toml::table& table, const std::string& key) const;
  Group group(const toml::table& table, const Group& common, bool named) const;
  void add_runs(const Group& group, std::vector<SweepRun>& runs);

  fs::path file_;
  double all_ = 0.0;  // runs of the groups so far
};

std::string text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto real = node.value_exact<double>()) return fmt::format("{}", *real);
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  return out.str();
}

void Reader::check_keys(const toml::table& table, const std::vector<std::string>& known,
                        const std::string& where) const {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse(fmt::format("{} has no key '{}'; did you mean '{}'?", where, name, nearest_word(name, known)));
  }
}

template <class T>
T Reader::value(const toml::table& table, const char* key, T fallback) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fallback;
  const auto value = node->value_exact<T>();
  if (!value) refuse(fmt::format("{} = {} is of another type", key, text_of(*node)));
  return *value;
}

// [set]: a value for each setting, written as "section.key" = value or in sections.
Values Reader::fixed(const toml::table& table, const std::string& where) const {
  Values values;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (const toml::table* section = node.as_table()) {
      for (const auto& [inner, entry] : *section)
        values[name + "." + std::string(inner.str())] = text_of(entry);
    } else if (name.find('.') != std::string::npos) {
      values[name] = text_of(node);
    } else {
      refuse(fmt::format("{} has '{}': a setting is \"section.key\" = value", where, name));
    }
  }
  return values;
}

// { log10 = [-1.5, 1.5], count = 12 } or { linear = [1, 3], count = 11 }
std::vector<std::string> Reader::spaced(const toml::table& table, const std::string& key) const {
  check_keys(table, {"log10", "linear", "count"}, key);
  const bool logarithmic = table.contains("log10");
  const toml::array* ends = table.get_as<toml::array>(logarithmic ? "log10" : "linear");
  const int64_t count = value<int64_t>(table, "count", 0);
  if (ends == nullptr || ends->size() != 2 || !(*ends)[0].is_number() || !(*ends)[1].is_number() || count < 2)
    refuse(fmt::format("{} = {}: give log10 or linear = [first, last], and a count of at least 2", key,
                       text_of(table)));
  if (count > kMostRuns)
    refuse(fmt::format("{} must have a count of at most {}, got {}", key, kMostRuns, count));
  const double first = *(*ends)[0].value<double>(), last = *(*ends)[1].value<double>();
  std::vector<std::string> values;
  for (int64_t i = 0; i < count; ++i) {
    const double at = first + (last - first) * static_cast<double>(i) / static_cast<double>(count - 1);
    values.push_back(fmt::format("{:.4g}", logarithmic ? std::pow(10.0, at) : at));
  }
  return values;
}

std::vector<std::string> Reader::tried(const toml::node& node, const std::string& key) const {
  if (const toml::table* table = node.as_table()) return spaced(*table, key);
  const toml::array* list = node.as_array();
  if (list == nullptr || list->empty())
    refuse(fmt::format("the grid's {} must be a list of values, got {}", key, text_of(node)));
  std::vector<std::string> values;
  for (const toml::node& entry : *list) values.push_back(text_of(entry));
  if (std::set<std::string>(values.begin(), values.end()).size() != values.size())
    refuse(fmt::format("the grid's {} names a value twice", key));
  return values;
}

Group Reader::group(const toml::table& table, const Group& common, bool named) const {
  Group group = common;
  if (named) {
    check_keys(table, {"name", "recipe", "set", "grid", "take"}, "[[group]]");
    group.name = value<std::string>(table, "name", "");
    if (group.name.empty() || group.name.find_first_of(",\"\n/ ") != std::string::npos)
      refuse(fmt::format("a [[group]] is called '{}': give each a name without spaces, commas or slashes",
                         group.name));
  }
  const auto recipe = value<std::string>(table, "recipe", "");
  if (!recipe.empty()) group.recipe = file_.parent_path() / recipe;
  group.take = value<int64_t>(table, "take", common.take);
  if (group.take < 0) refuse(fmt::format("take must be 0, for all runs, or more, got {}", group.take));
  for (const char* key : {"set", "grid"}) {
    if (table.contains(key) && table.get_as<toml::table>(key) == nullptr)
      refuse(fmt::format("{} must be a table, [{}] and a line for each setting, got {}", key, key,
                         text_of(*table.get(key))));
  }
  if (const toml::table* set = table.get_as<toml::table>("set")) {
    for (auto& [key, text] : fixed(*set, "[set]")) group.set[key] = text;
  }
  const auto add_axis = [&](const std::string& name, const toml::node& node) {
    std::erase_if(group.grid, [&name](const auto& axis) { return axis.first == name; });
    group.grid.emplace_back(name, tried(node, name));
  };
  if (const toml::table* grid = table.get_as<toml::table>("grid")) {
    for (const auto& [key, node] : *grid) {
      const std::string name(key.str());
      const toml::table* section = name.find('.') == std::string::npos ? node.as_table() : nullptr;
      if (section == nullptr) add_axis(name, node);
      for (const auto& [inner, entry] : section == nullptr ? toml::table() : *section)
        add_axis(name + "." + std::string(inner.str()), entry);
    }
  }
  return group;
}

// What a run depends on: the settings that the recipe names and those over it. Defaults that Bridle may gain later are not in it.
std::string digest_of(const fs::path& recipe, const std::vector<std::string>& set) {
  std::map<std::string, std::string> values;
  for (const auto& [section, node] : parse_toml_file(recipe, "sweep")) {
    if (const toml::table* table = node.as_table())
      for (const auto& [key, entry] : *table)
        values[std::string(section.str()) + "." + std::string(key.str())] = text_of(entry);
  }
  for (const std::string& assignment : set) {
    const size_t equals = assignment.find('=');
    values[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  Sha256 sha;
  for (const auto& [key, text] : values) {
    const std::string line = key + "=" + text + "\n";
    sha.update(std::as_bytes(std::span(line)));
  }
  return sha.digest().substr(0, 12);
}

void Reader::add_runs(const Group& group, std::vector<SweepRun>& runs) {
  if (group.recipe.empty()) refuse(fmt::format("group '{}' has no recipe", group.name));
  std::vector<int64_t> sizes;
  double points = 1.0;
  for (const auto& [key, values] : group.grid) {
    sizes.push_back(static_cast<int64_t>(values.size()));
    points *= static_cast<double>(values.size());
  }
  const double wanted = group.take > 0 ? std::min(points, static_cast<double>(group.take)) : points;
  all_ += wanted;
  if (all_ > static_cast<double>(kMostRuns))
    refuse(fmt::format(
        "it has {:.4g} runs up to group '{}'; at most {} are made: shorten the lists, or set take", all_,
        group.name, kMostRuns));
  if (points > kLargestGrid)
    refuse(
        fmt::format("group '{}' takes its runs from a grid of {:.4g} points, of which there may be at most "
                    "{:.4g}: shorten the lists",
                    group.name, points, kLargestGrid));
  for (const std::vector<int64_t>& point : spread_points(sizes, group.take)) {
    SweepRun run{.key = {}, .group = group.name, .recipe = group.recipe, .set = {}, .varied = {}};
    Values values = group.set;
    for (size_t axis = 0; axis < point.size(); ++axis) {
      const auto& [key, tried] = group.grid[axis];
      values[key] = run.varied[key] = tried[static_cast<size_t>(point[axis])];
    }
    for (const auto& [key, text] : values) run.set.push_back(key + "=" + text);
    run.steps =
        read_recipe(run.recipe, run.set).training.steps;  // every setting is looked at before the first run
    run.key = group.name + "-" + digest_of(run.recipe, run.set);
    runs.push_back(std::move(run));
  }
}

Sweep Reader::read() {
  const toml::table table = parse_toml_file(file_, "sweep");
  check_keys(table, {"name", "recipe", "results", "folder", "keep", "take", "set", "grid", "group"},
             "the file");
  const std::string folder_name = fs::absolute(file_).lexically_normal().parent_path().filename().string();
  const std::string name = value<std::string>(table, "name", folder_name + "_" + file_.stem().string());
  const fs::path home = file_.parent_path();
  Sweep sweep{.file = file_,
              .folder = value<std::string>(table, "folder", (fs::path("runs") / "sweeps" / name).string()),
              .results = home / value<std::string>(table, "results", file_.stem().string() + ".csv"),
              .keep = value<bool>(table, "keep", false),
              .runs = {}};
  const Group common = group(table, {.name = name, .recipe = {}, .set = {}, .grid = {}}, false);
  std::vector<std::vector<SweepRun>> by_group;
  if (const toml::node* node = table.get("group")) {
    const toml::array* groups = node->as_array();
    if (groups == nullptr || groups->empty() || !groups->is_homogeneous(toml::node_type::table))
      refuse("groups are tables with double brackets: [[group]]");
    for (const toml::node& entry : *groups)
      add_runs(group(*entry.as_table(), common, true), by_group.emplace_back());
  } else {
    add_runs(common, by_group.emplace_back());
  }
  // Groups in turn, so that all of them grow together.
  for (size_t place = 0, added = 1; added > 0; ++place) {
    added = 0;
    for (std::vector<SweepRun>& runs : by_group) {
      if (place >= runs.size()) continue;
      sweep.runs.push_back(std::move(runs[place]));
      ++added;
    }
  }
  std::set<std::string> keys;
  for (const SweepRun& run : sweep.runs) {
    if (!keys.insert(run.key).second) refuse(fmt::format("group '{}' has the same run twice", run.group));
  }
  return sweep;
}

}  // namespace

Sweep read_sweep(const fs::path& file) { return Reader(file).read(); }

}  // namespace bridle
