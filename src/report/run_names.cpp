#include "report/run_names.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

// The last `parts` parts of a path.
std::string tail_of(const fs::path& path, size_t parts) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  fs::path rest = whole.filename().empty() ? whole.parent_path() : whole;
  fs::path tail;
  for (size_t i = 0; i < parts && rest.has_filename(); ++i, rest = rest.parent_path())
    tail = tail.empty() ? rest.filename() : rest.filename() / tail;
  return tail.empty() ? whole.string() : tail.string();
}

}  // namespace

std::vector<std::string> run_names(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) {
    std::string name = tail_of(path, 1);
    for (size_t parts = 2; parts <= 16; ++parts) {
      size_t same = 0;
      for (const fs::path& other : paths) same += tail_of(other, parts - 1) == name ? 1 : 0;
      if (same <= 1) break;
      name = tail_of(path, parts);
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace bridle
