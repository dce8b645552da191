// Commands as earlier versions had them.
#pragma once

#include <string>
#include <vector>

namespace bridle {

// How it is spelt now, as a sentence; empty for a command that is none of them. `words`: the arguments after the program's name.
std::string new_spelling(const std::vector<std::string>& words);

}  // namespace bridle
