// The known word nearest to a mistyped one, for "did you mean" in errors.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace bridle {

// By edit distance; the first of equals. `known` must not be empty.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace bridle
