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
  // What false and true stand for, where a key was a switch before it was a choice; null: they are errors.
  const char* when_false = nullptr;
  const char* when_true = nullptr;

  std::string chosen() const { return word(get(place)); }
  bool choose(std::string_view text) const;  // false, and nothing is changed, where there is no such word
  bool choose(bool value) const;
  std::string words() const;  // all of them, for help and errors
};

template <class Enum>
Choice choice(Enum* place, const char* when_false = nullptr, const char* when_true = nullptr) {
  return {place,
          [](int value) { return word(static_cast<Enum>(value)); },
          [](const void* from) { return static_cast<int>(*static_cast<const Enum*>(from)); },
          [](void* to, int value) { *static_cast<Enum*>(to) = static_cast<Enum>(value); },
          when_false,
          when_true};
}

// What a number may be: "key must be {words}".
struct Range {
  bool (*holds)(double value) = nullptr;  // null: whatever its type holds
  const char* words = "";
};

// A list of values of an enum, each by its word.
struct ChoiceList {
  void* place;
  const char* (*word)(int value);  // null past the last
  std::vector<int> (*get)(const void* place);
  void (*set)(void* place, const std::vector<int>& values);

  std::vector<std::string> chosen() const;
  bool choose(const std::vector<std::string>& words)
      const;  // false, and nothing is changed, where there is no such word
  std::string words() const;
};

template <class Enum>
ChoiceList choice_list(std::vector<Enum>* place) {
  return {place, [](int value) { return word(static_cast<Enum>(value)); },
          [](const void* from) {
            std::vector<int> values;
            for (const Enum value : *static_cast<const std::vector<Enum>*>(from))
              values.push_back(static_cast<int>(value));
            return values;
          },
          [](void* to, const std::vector<int>& values) {
            auto& list = *static_cast<std::vector<Enum>*>(to);
            list.clear();
            for (const int value : values) list.push_back(static_cast<Enum>(value));
          }};
}

struct Setting {
  using Place = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*, Choice,
                             ChoiceList>;
  std::string key;  // "section.name"
  Place place;
  std::string help;
  Range range = {};
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

// Throws InputError, by the name of the operation, for the first number that is out of its range.
void check_ranges(const Settings& settings, const std::string& operation);

// One value, as TOML has it.
std::string value_text(const Setting& setting);

struct SettingDifference {
  std::string key;
  std::string first, second;  // values, as TOML has them
};

// Where two lists of the same keys have other values.
std::vector<SettingDifference> differences(const Settings& first, const Settings& second);

}  // namespace bridle
