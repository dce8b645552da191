// Manual pages in roff.
#pragma once

#include <string>

#include "command_tree.h"

namespace bridle {

// Of one command: bridle.1, bridle-data-get.1. `version`: what stands at a page's foot.
std::string man_page(const Command& command, const std::string& version);
std::string man_page_name(const Command& command);

}  // namespace bridle
