// See resources.h.
#include "resources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "bridle/error.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> share_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {program / "share/bridle", program / "../share/bridle"};
}

std::vector<fs::path> recipe_folders() {
  std::vector<fs::path> folders{"recipes"};
  for (const fs::path& share : share_folders()) folders.push_back(share / "recipes");
  return folders;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const fs::path& folder : recipe_folders()) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

fs::path recipe_file(const std::string& recipe) {
  const fs::path path = recipe;
  const bool bare = path.filename() == path && path.extension() != ".toml";
  const bool from_recipes = path.parent_path() == "recipes" && path.extension() == ".toml";
  if (!bare && (!from_recipes || fs::exists(path))) return path;
  for (const fs::path& folder : recipe_folders()) {
    const fs::path found = (folder / (bare ? recipe + ".toml" : path.filename().string())).lexically_normal();
    if (fs::is_regular_file(found)) return found;
  }
  if (!bare || fs::exists(path)) return path;  // reading it says what is wrong
  const std::vector<std::string> known = recipe_names();
  throw InputError(
      "train", known.empty()
                   ? fmt::format("'{}' must be a TOML file or a recipe's name", recipe)
                   : fmt::format("no recipe '{}'; did you mean '{}'? Name a TOML file, or one of: {}", recipe,
                                 nearest_word(recipe, known), fmt::join(known, ", ")));
}

std::string checker_path() {
  const fs::path in_tree = "scripts/check_certificate.py";
  if (fs::exists(in_tree)) return in_tree.string();
  for (const fs::path& share : share_folders()) {
    const fs::path found = share / "check_certificate.py";
    if (fs::exists(found)) return fs::weakly_canonical(found).string();
  }
  return in_tree.string();
}

}  // namespace bridle
