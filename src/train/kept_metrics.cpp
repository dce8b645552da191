#include "train/kept_metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/files.h"

namespace bridle {
namespace {

// A line of a step that is done.
bool belongs(std::string_view line, int64_t step) {
  const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return entry.is_object() && entry.contains("step") && entry["step"].is_number_integer() &&
         entry["step"].get<int64_t>() <= step;
}

std::string_view last_line(std::string_view lines) {
  lines.remove_suffix(1);
  return lines.substr(lines.rfind('\n') + 1);
}

// The whole lines at the beginning that belong to steps up to this one.
int64_t whole_lines(std::string_view text, int64_t step) {
  size_t kept = 0;
  for (size_t end; (end = text.find('\n', kept)) != std::string_view::npos; kept = end + 1)
    if (!belongs(text.substr(kept, end - kept), step)) break;
  return static_cast<int64_t>(kept);
}

}  // namespace

KeptMetrics kept_metrics(const std::filesystem::path& path, int64_t bytes, int64_t step) {
  if (bytes == 0) return {};
  if (!std::filesystem::exists(path))
    return {0, fmt::format("{} is missing: what it held up to step {} is lost, and the run goes on",
                           path.string(), step)};
  const MappedFile file(path);
  const std::string_view before = file.text().substr(0, static_cast<size_t>(bytes));
  if (std::ssize(before) == bytes && before.back() == '\n' && belongs(last_line(before), step))
    return {bytes, {}};
  return {whole_lines(file.text(), step),
          fmt::format("{} does not hold all lines up to step {}: what is whole is kept, and the run goes on",
                      path.string(), step)};
}

}  // namespace bridle
