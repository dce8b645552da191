// Scripts that complete bridle's commands in a shell.
#pragma once

#include <string>

#include "command_tree.h"

namespace bridle {

std::string bash_completion(const Command& tree);
std::string zsh_completion(const Command& tree);
std::string fish_completion(const Command& tree);

}  // namespace bridle
