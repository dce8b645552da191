// Enums and the words that stand for them. An enum E has `const char* word(E)`, an exhaustive switch that is null for values past
// the last one; the list of all values follows from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bridle {

template <class Enum>
std::vector<Enum> all_values() {
  std::vector<Enum> values;
  for (int i = 0; word(static_cast<Enum>(i)) != nullptr; ++i) values.push_back(static_cast<Enum>(i));
  return values;
}

template <class Enum>
std::optional<Enum> value_of(std::string_view text) {
  for (const Enum value : all_values<Enum>())
    if (text == word(value)) return value;
  return std::nullopt;
}

}  // namespace bridle
