// Words out of a known few: finding them, and the known word nearest to a mistyped one for "did you mean" in errors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bridle {

// By edit distance; the first of equals. `known` must not be empty.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

// The word's place among the known ones. Throws InputError "[operation] no <kind> '<word>'; did you mean …".
size_t find_word(std::string_view word, const std::vector<std::string>& known, const char* operation,
                 const char* kind);

}  // namespace bridle
