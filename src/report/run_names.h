// Names of runs for people: the last parts of their paths, as few as tell them apart.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bridle {

std::vector<std::string> run_names(const std::vector<std::filesystem::path>& paths);

}  // namespace bridle
