// JSON as it stands in a file: whole, and without keys that come twice, of which a reader and a program may see different
// ones.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace bridle {

// Throws InputError "[operation] origin: …" for text that is not JSON, and for a key that comes twice in one object.
nlohmann::ordered_json parse_json(std::string_view text, const char* operation, const std::string& origin);

}  // namespace bridle
