#include "base/json_text.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "bridle/error.h"

namespace bridle {

namespace {

using Json = nlohmann::ordered_json;

// Outside of strings.
bool holds_word(std::string_view text, std::string_view word) {
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && text.substr(i).starts_with(word)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> json_flaw(std::string_view text) {
  for (const char* word : {"NaN", "Infinity"})
    if (holds_word(text, word)) return fmt::format("it holds {}", word);
  std::vector<std::set<std::string>> open;  // the keys of every object that has not ended
  std::optional<std::string> flaw;
  const auto see = [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      flaw = fmt::format("the key '{}' comes twice", value.get<std::string>());
    return true;
  };
  try {
    const Json json = Json::parse(text, see);
    return flaw;
  } catch (const Json::out_of_range&) {
    return "it holds a number beyond a double";
  } catch (const Json::parse_error&) {
    return std::nullopt;
  }
}

Json parse_json(std::string_view text, const char* operation, const std::string& origin) {
  if (const auto flaw = json_flaw(text)) throw InputError(operation, fmt::format("{}: {}", origin, *flaw));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  throw InputError(operation, fmt::format("{} is not JSON; it is truncated or damaged", origin));
}

}  // namespace bridle
