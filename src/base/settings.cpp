#include "base/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/nearest.h"
#include "base/toml_text.h"
#include "bridle/error.h"

namespace bridle {
namespace {

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// The nearest key, in quotes; for one without a section all those whose last part is the nearest.
std::vector<std::string> meant_keys(const Settings& settings, const std::string& key) {
  const bool whole = key.find('.') != std::string::npos;
  std::vector<std::string> known;
  for (const Setting& setting : settings) known.push_back(whole ? setting.key : last_part(setting.key));
  const std::string nearest = nearest_word(key, known);
  std::vector<std::string> meant;
  for (size_t i = 0; i < known.size(); ++i)
    if (known[i] == nearest) meant.push_back("'" + settings[i].key + "'");
  return meant;
}

const Setting& find(const Settings& settings, const std::string& key, const std::string& origin) {
  for (const Setting& setting : settings)
    if (setting.key == key) return setting;
  throw InputError("settings", fmt::format("{}: there is no key '{}'; did you mean {}?", origin, key,
                                           fmt::join(meant_keys(settings, key), " or ")));
}

const char* type_name(const Setting::Place& place) {
  constexpr const char* names[] = {"true or false", "an integer",     "a nonnegative integer",
                                   "a number",      "a string",       "a list of integers",
                                   "a word",        "a list of words"};
  return names[place.index()];
}

// Stores a TOML value; false where it is of another type.
struct Store {
  const toml::node& node;
  bool operator()(bool* out) const { return take(node.value_exact<bool>(), out); }
  bool operator()(int64_t* out) const { return take(node.value_exact<int64_t>(), out); }
  bool operator()(uint64_t* out) const {
    const auto value = node.value_exact<int64_t>();
    if (!value || *value < 0) return false;
    *out = static_cast<uint64_t>(*value);
    return true;
  }
  bool operator()(double* out) const {
    if (const auto whole = node.value_exact<int64_t>())
      return take(std::optional(static_cast<double>(*whole)), out);
    return take(node.value_exact<double>(), out);
  }
  bool operator()(std::string* out) const { return take(node.value_exact<std::string>(), out); }
  bool operator()(std::vector<int64_t>* out) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) return false;
    std::vector<int64_t> values;
    for (const toml::node& entry : *list) {
      const auto value = entry.value_exact<int64_t>();
      if (!value) return false;
      values.push_back(*value);
    }
    *out = std::move(values);
    return true;
  }
  bool operator()(const Choice& out) const {
    if (const auto value = node.value_exact<bool>()) return out.choose(*value);
    const auto text = node.value_exact<std::string>();
    return text && out.choose(*text);
  }
  bool operator()(const ChoiceList& out) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) return false;
    std::vector<std::string> words;
    for (const toml::node& entry : *list) {
      const auto word = entry.value_exact<std::string>();
      if (!word) return false;
      words.push_back(*word);
    }
    return out.choose(words);
  }
  template <class T>
  static bool take(const std::optional<T>& value, T* out) {
    if (value) *out = *value;
    return value.has_value();
  }
};

std::string text_of(const toml::node& node) {
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  return out.str();
}

void store(const Settings& settings, const std::string& key, const toml::node& node,
           const std::string& origin) {
  const Setting& setting = find(settings, key, origin);
  if (!std::visit(Store{node}, setting.place)) {
    if (const auto* choice = std::get_if<Choice>(&setting.place))
      throw InputError("settings", fmt::format("{}: {} must be one of {}, got {}", origin, key,
                                               choice->words(), text_of(node)));
    if (const auto* list = std::get_if<ChoiceList>(&setting.place))
      throw InputError("settings", fmt::format("{}: {} must be a list of words of {}, got {}", origin, key,
                                               list->words(), text_of(node)));
    throw InputError("settings", fmt::format("{}: {} must be {}, got {}", origin, key,
                                             type_name(setting.place), text_of(node)));
  }
  for (const Setting::Place& copy : setting.copies) std::visit(Store{node}, copy);
}

void store_table(const Settings& settings, const toml::table& table, const std::string& prefix,
                 const std::string& origin, std::set<std::string>& named) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const toml::table* inner = node.as_table())
      store_table(settings, *inner, key + ".", origin, named);
    else
      store(settings, key, node, origin);
    if (!node.is_table()) named.insert(key);
  }
}

}  // namespace

bool Choice::choose(std::string_view text) const {
  for (int i = 0; word(i) != nullptr; ++i) {
    if (text != word(i)) continue;
    set(place, i);
    return true;
  }
  return false;
}

bool Choice::choose(bool value) const {
  const char* meant = value ? when_true : when_false;
  return meant != nullptr && choose(std::string_view(meant));
}

namespace {

std::string all_words(const char* (*word)(int)) {
  std::string list;
  for (int i = 0; word(i) != nullptr; ++i) list += (i == 0 ? "" : ", ") + std::string(word(i));
  return list;
}

}  // namespace

std::string Choice::words() const { return all_words(word); }

std::vector<std::string> ChoiceList::chosen() const {
  std::vector<std::string> all;
  for (const int value : get(place)) all.emplace_back(word(value));
  return all;
}

bool ChoiceList::choose(const std::vector<std::string>& words) const {
  std::vector<int> values;
  for (const std::string& wanted : words) {
    int value = 0;
    while (word(value) != nullptr && wanted != word(value)) ++value;
    if (word(value) == nullptr) return false;
    values.push_back(value);
  }
  set(place, values);
  return true;
}

std::string ChoiceList::words() const { return all_words(word); }

std::set<std::string> read_toml(const Settings& settings, std::string_view text, const std::string& origin) {
  std::set<std::string> named;
  store_table(settings, parse_toml(text, "settings", origin), "", origin, named);
  return named;
}

void set_value(const Settings& settings, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const std::string origin = fmt::format("--set {}", assignment);
  if (equals == std::string::npos || equals == 0)
    throw InputError("settings", fmt::format("{}: it must be section.key=value", origin));
  const std::string key = assignment.substr(0, equals);
  const std::string value = assignment.substr(equals + 1);
  const Setting& setting = find(settings, key, origin);
  const bool is_text =
      std::holds_alternative<std::string*>(setting.place) || std::holds_alternative<Choice>(setting.place);
  const bool is_switch =
      std::holds_alternative<Choice>(setting.place) && (value == "true" || value == "false");
  if (is_text && !is_switch && !value.starts_with('"') && !value.starts_with('\''))
    return store(settings, key, toml::value<std::string>(value), origin);
  if (value.find('\n') != std::string::npos)
    throw InputError("settings", fmt::format("{}: a value must be one line", origin));
  store(settings, key, *parse_toml("value = " + value, "settings", origin).get("value"), origin);
}

std::string value_text(const Setting& setting) {
  struct Text {
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const int64_t* value) const { return fmt::format("{}", *value); }
    std::string operator()(const uint64_t* value) const { return fmt::format("{}", *value); }
    std::string operator()(const double* value) const {
      if (std::isinf(*value)) return *value > 0 ? "inf" : "-inf";
      const std::string text = fmt::format("{}", *value);
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string* value) const {
      std::ostringstream out;
      out << toml::value<std::string>(*value);
      return out.str();
    }
    std::string operator()(const std::vector<int64_t>* value) const {
      return fmt::format("[{}]", fmt::join(*value, ", "));
    }
    std::string operator()(const Choice& choice) const {
      const std::string chosen = choice.chosen();
      return (*this)(&chosen);
    }
    std::string operator()(const ChoiceList& list) const {
      std::vector<std::string> quoted;
      for (const std::string& chosen : list.chosen()) quoted.push_back((*this)(&chosen));
      return fmt::format("[{}]", fmt::join(quoted, ", "));
    }
  };
  return std::visit(Text{}, setting.place);
}

void check_ranges(const Settings& settings, const std::string& operation) {
  for (const Setting& setting : settings) {
    const auto check = [&](auto value) {
      if (!setting.range.holds(static_cast<double>(value)))
        throw InputError(operation,
                         fmt::format("{} must be {}, got {}", setting.key, setting.range.words, value));
    };
    if (setting.range.holds == nullptr) continue;
    if (const auto* const* whole = std::get_if<int64_t*>(&setting.place)) check(**whole);
    if (const auto* const* number = std::get_if<double*>(&setting.place)) check(**number);
  }
}

std::vector<SettingDifference> differences(const Settings& first, const Settings& second) {
  std::vector<SettingDifference> found;
  for (size_t i = 0; i < first.size(); ++i) {
    SettingDifference difference{first[i].key, value_text(first[i]), value_text(second.at(i))};
    if (difference.first != difference.second) found.push_back(std::move(difference));
  }
  return found;
}

std::string to_toml(const Settings& settings) {
  std::string out;
  std::string section;
  for (const Setting& setting : settings) {
    const size_t dot = setting.key.rfind('.');
    const std::string own = setting.key.substr(0, dot);
    if (own != section) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section = own);
    out += fmt::format("{} = {}\n", setting.key.substr(dot + 1), value_text(setting));
  }
  return out;
}

}  // namespace bridle
