#include "base/json_text.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "bridle/error.h"

namespace bridle {

nlohmann::ordered_json parse_json(std::string_view text, const char* operation, const std::string& origin) {
  using Json = nlohmann::ordered_json;
  std::vector<std::set<std::string>> open;  // the keys of every object that has not ended
  std::string twice;
  const auto see = [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json json = Json::parse(text, see, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw InputError(operation, fmt::format("{} is not JSON; it is truncated or damaged", origin));
  if (!twice.empty()) throw InputError(operation, fmt::format("{}: the key '{}' comes twice", origin, twice));
  return json;
}

}  // namespace bridle
