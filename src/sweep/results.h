// Finished runs as a table that people and other programs read, and that a sweep can go on from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sweep/registry.h"

namespace bridle {

// Lines of a CSV file by the names in its first one. Throws InputError, naming the line, where one has more or fewer cells, a key
// that came before, a status that no finished run has, or a measured value that is not a number.
std::vector<Cells> parse_csv(std::string_view text, const std::string& origin);

}  // namespace bridle
