// JSON as it stands in a file: whole, and without keys that come twice, of which a reader and a program may see different
// ones.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace bridle {

// What makes readers of the text disagree, in words: a key that comes twice in one object; NaN or Infinity, which some take
// for numbers; a number beyond a double. None in text that is just not JSON.
std::optional<std::string> json_flaw(std::string_view text);

// Throws InputError "[operation] origin: …" for text with a flaw and for text that is not JSON.
nlohmann::ordered_json parse_json(std::string_view text, const char* operation, const std::string& origin);

}  // namespace bridle
