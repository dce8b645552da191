// Settings: one list of keys, each bound to a variable, drives reading TOML, --set, printing and help. A key that is not
// in the list is an error that names the nearest one; so is a value of another type.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace bridle {

struct Setting {
  using Place = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*>;
  std::string key;  // "section.name"
  Place place;
  std::string help;
};

using Settings = std::vector<Setting>;

// Values of a TOML text into their places; keys that it does not name keep theirs. Returns the keys that it names. `origin` names it
// in errors.
std::set<std::string> read_toml(const Settings& settings, std::string_view text, const std::string& origin);

// "section.name=value"; the value as in TOML, or a bare word for a string.
void set_value(const Settings& settings, const std::string& assignment);

// All of them, by section, as TOML that read_toml gives back to the last bit.
std::string to_toml(const Settings& settings);

// One value, as TOML has it.
std::string value_text(const Setting& setting);

struct SettingDifference {
  std::string key;
  std::string first, second;  // values, as TOML has them
};

// Where two lists of the same keys have other values.
std::vector<SettingDifference> differences(const Settings& first, const Settings& second);

}  // namespace bridle
