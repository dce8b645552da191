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

// An enum behind its words (base/words.h).
struct Choice {
  void* place;
  const char* (*word)(int value);  // null past the last
  int (*get)(const void* place);
  void (*set)(void* place, int value);

  std::string chosen() const { return word(get(place)); }
  bool choose(std::string_view text) const;  // false, and nothing is changed, where there is no such word
  std::string words() const;                 // all of them, for help and errors
};

template <class Enum>
Choice choice(Enum* place) {
  return {place, [](int value) { return word(static_cast<Enum>(value)); },
          [](const void* from) { return static_cast<int>(*static_cast<const Enum*>(from)); },
          [](void* to, int value) { *static_cast<Enum*>(to) = static_cast<Enum>(value); }};
}

struct Setting {
  using Place =
      std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*, Choice>;
  std::string key;  // "section.name"
  Place place;
  std::string help;
  std::vector<Place> copies = {};  // get the same value: keys that two kinds of model share
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
