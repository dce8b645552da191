#include "base/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace bridle {
namespace {

using Path = std::filesystem::path;

std::optional<int64_t> number_in(const std::string& text) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;  // "max" is no number: there is no limit
}

// The number after a word at the beginning of a line: "MemAvailable:   123 kB", "inactive_file 123".
std::optional<int64_t> value_of(const Path& file, const std::string& word) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(word)) continue;
    const size_t digits = line.find_first_of("0123456789", word.size());
    return digits == std::string::npos ? std::nullopt : number_in(line.substr(digits));
  }
  return std::nullopt;
}

std::optional<int64_t> number_of(const Path& file) {
  std::ifstream stream(file);
  std::string text;
  std::getline(stream, text);
  return number_in(text);
}

// Below the limit of one group; the page cache's cold part can be given back.
std::optional<int64_t> left_in(const Path& group) {
  const auto limit = number_of(group / "memory.max"), used = number_of(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const int64_t cold = value_of(group / "memory.stat", "inactive_file ").value_or(0);
  return std::max<int64_t>(0, *limit - *used + std::min(cold, *used));
}

// The group of this process in version 2's single tree, from "0::/path"; the tree's root where the path is not to be seen,
// as in a container.
Path own_group(const Path& proc, const Path& cgroups) {
  std::ifstream lines(proc / "self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view prefix = "0::/";
    if (!line.starts_with(prefix)) continue;
    const Path group = cgroups / line.substr(prefix.size());
    std::error_code ignored;
    if (std::filesystem::is_directory(group, ignored)) return group;
  }
  return cgroups;
}

}  // namespace

std::optional<int64_t> available_memory(const Path& proc, const Path& cgroups) {
  std::optional<int64_t> least;
  const auto at_most = [&least](std::optional<int64_t> bytes) {
    if (bytes) least = std::min(least.value_or(*bytes), *bytes);
  };
  const auto kilobytes = value_of(proc / "meminfo", "MemAvailable:");
  if (kilobytes) at_most(1024 * *kilobytes);
  for (Path group = own_group(proc, cgroups);; group = group.parent_path()) {  // every level has its limit
    at_most(left_in(group));
    if (group == cgroups || group == group.parent_path()) return least;
  }
}

}  // namespace bridle
