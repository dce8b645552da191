// JSON as it stands in a file, read so strictly that no two readers can disagree about it. The rules are in
// docs/reference/certificate.md, "JSON texts".
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace bridle {

constexpr size_t kLargestJson = size_t{1} << 22U;  // bytes of a text that is read into values
constexpr size_t kDeepestJson = 16;                // objects and lists within one another
constexpr size_t kMostKeys = 1000;  // of an object: ordered_json looks at all of them for every new one
constexpr int64_t kLargestInteger = (int64_t{1} << 53U) - 1;  // beyond it some readers round

// What is wrong with the text, in words; none where it keeps to the rules.
std::optional<std::string> json_flaw(std::string_view text);

// Throws InputError "[operation] origin: …" for text with a flaw.
nlohmann::ordered_json parse_json(std::string_view text, const char* operation, const std::string& origin);

// Equal in every key, value and type: 1 and 1.0 differ, the order of keys does not matter.
bool same_json(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

// The value of a setting; a choice is its word.
struct Setting;
nlohmann::ordered_json json_of(const Setting& setting);

// A value for an error's message, cut where it is long.
std::string shown(const nlohmann::ordered_json& value);

}  // namespace bridle
