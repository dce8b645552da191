// Enums and the words that stand for them. An enum E has `const char* word(E)`, an exhaustive switch that is null for values past
// the last one; the list of all values follows from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridle/error.h"

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

// The value of a word. Throws `Failure`: "[operation] <what> must be one of a, b, got 'c'".
template <class Enum, class Failure = InputError>
Enum parse_word(std::string_view text, const char* operation, const std::string& what) {
  if (const auto value = value_of<Enum>(text)) return *value;
  std::string words;
  for (const Enum known : all_values<Enum>()) words += (words.empty() ? "" : ", ") + std::string(word(known));
  throw Failure(operation, what + " must be one of " + words + ", got '" + std::string(text) + "'");
}

}  // namespace bridle
