// What is installed beside the program in share/bridle, and stands in a build's share/bridle too: recipes, the independent checker.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bridle {

// A path as it is; for a bare name, or a path into recipes/ that is not there, the recipe of that name in ./recipes or in
// share/bridle/recipes. Throws InputError, naming the nearest one, where there is none.
std::filesystem::path recipe_file(const std::string& recipe);

std::vector<std::string> recipe_names();  // of both, sorted

// The independent checker, as a user here can start it.
std::string checker_path();

}  // namespace bridle
